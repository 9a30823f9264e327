#pragma once

#include <headroom/fp8/quantize.hpp>
#include <headroom/fp8/rules.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// A scale for each leaf of a tree, for casts to To, which is float8_e4m3 or float8_e5m2. A rule computes the scales from the
/// largest magnitudes of the leaves: see fp8/rules.hpp. Keep one TensorScales for each tree that you quantize: weights,
/// activations, gradients.
/// Call `quantize` once or more in a step, `dequantize` with inverse_scales(), and `update` at the end of the step: see
/// docs/fp8.md.
///
/// With DelayedScaling, a scale follows from the magnitudes of earlier steps, so `quantize` is one pass. With CurrentScaling
/// and TorchaoScaling it follows from the leaf itself, which is read twice.
template <class To, class Rule = DelayedScaling>
class TensorScales {
 public:
  /// `like` has the structure of the trees to come. Its values are not read. Throws std::invalid_argument if a setting of the
  /// rule is out of range.
  template <class Tree>
  explicit TensorScales(const Tree& like, const Rule& rule = {}) : rule_(rule) {
    rule.check();
    detail::check_leaf_order<Tree>();
    headroom::for_each_leaf_with_path(like, [this](const std::string& path, const auto&) { paths_.push_back(path); });
    states_.assign(paths_.size(), rule_.start());
    scales_.assign(paths_.size(), 1.0F);
    inverse_scales_ = scales_;
    max_abs_.assign(paths_.size(), 0.0F);
  }

  /// A new tree with elements of To. See quantize_into.
  template <class Executor, class Tree>
  [[nodiscard]] auto quantize(const Executor& executor, const Tree& tree) {
    auto result = detail::make_like<To>(tree);
    (void)quantize_into(executor, tree, result);
    return result;
  }
  template <class Tree>
  [[nodiscard]] auto quantize(const Tree& tree) {
    return quantize(sequential, tree);
  }
  /// Writes `tree`, multiplied by the scales, into an existing tree with leaves of To: see headroom::quantize_into. Remembers
  /// the largest magnitude of each leaf until `update`. Throws std::invalid_argument, before anything is written, if the trees
  /// differ or do not have as many leaves as the scales.
  template <class Executor, class Tree, class Fp8Tree>
  GradientReport quantize_into(const Executor& executor, const Tree& tree, Fp8Tree&& destination) {
    detail::Plan plan;
    detail::make_plan<detail::QuantizeOps, detail::Access::into>(plan, tree, destination);
    static_assert(detail::every_leaf_is_v<Fp8Tree, To>, "headroom: the destination must have leaves of To");
    const std::string leaves = std::to_string(plan.pieces().size()), here = std::to_string(paths_.size());
    if (leaves != here) detail::throw_invalid_argument({"the tree has ", leaves, " leaves, these TensorScales have ", here});
    // One leaf after the other, so that it is read the second time while it is in the cache.
    const bool rereads_from_cache = Rule::is_current && !reduce_ && detail::count_shares(executor, plan.elements()) == 1;
    if constexpr (Rule::is_current) {
      max_abs_.assign(paths_.size(), 0.0F);
      if (!rereads_from_cache)
        record(detail::run_leaves(executor, plan, [](auto, const auto& part) { return part.max_abs(); }));
      if (reduce_) reduce_(span<float>(max_abs_));
      for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) update_scale(leaf);
    }
    const auto maxima = detail::run_leaves(executor, plan, [&](std::size_t leaf, const detail::LeafPart& part) {
      if (rereads_from_cache) {
        max_abs_[leaf] = detail::leaf_max_abs(part.max_abs());
        update_scale(leaf);
      }
      return part.run(scales_[leaf], false);
    });
    if constexpr (!Rule::is_current) record(maxima);
    set_inverse_scales();
    return detail::report_of_leaves(maxima);
  }
  template <class Tree, class Fp8Tree>
  GradientReport quantize_into(const Tree& tree, Fp8Tree&& destination) {
    return quantize_into(sequential, tree, destination);
  }

  /// Ends a step: computes the scales of the next one from the largest magnitudes in all calls of `quantize` since the last
  /// `update`. Does nothing for rules of the current step.
  void update() {
    if constexpr (!Rule::is_current) {
      if (reduce_) reduce_(span<float>(max_abs_));
      for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
        update_scale(leaf);
        max_abs_[leaf] = 0.0F;
      }
    }
  }

  /// What the leaves are multiplied by: for a delayed rule in the next `quantize`, for a current one in the last.
  [[nodiscard]] span<const float> scales() const noexcept { return scales_; }
  /// 1 / scale, at most the largest float, with the scales of the last `quantize`: they dequantize what it has written, also
  /// after `update`. After load_state_dict, those of `scales()`: save them with codes that you save.
  [[nodiscard]] span<const float> inverse_scales() const noexcept { return inverse_scales_; }
  /// The largest magnitude of each leaf since the last `update`, or in the last `quantize` of a current rule; +Inf if it is not
  /// finite.
  [[nodiscard]] span<const float> max_abs() const noexcept { return max_abs_; }
  /// Of the leaves, as in for_each_leaf_with_path.
  [[nodiscard]] const std::vector<std::string>& paths() const noexcept { return paths_; }

  /// `reduce` replaces each number by the largest of all ranks, in place: MpiReducer and C10dReducer do. A delayed rule calls
  /// it in `update`, a current one in `quantize`. All ranks must make the same calls. An empty function: no ranks.
  void set_reducer(std::function<void(span<float>)> reduce) { reduce_ = std::move(reduce); }

  /// Call this with new / old when the loss scale has changed, on scales of gradients that are still multiplied by it. The
  /// recorded magnitudes are multiplied by `ratio`, so that the next gradients are not too large for scales of the old ones.
  /// Does nothing for rules of the current step. Throws std::invalid_argument if `ratio` is not positive and finite.
  void loss_scale_changed(float ratio) {
    using Limits = std::numeric_limits<float>;
    detail::check_in("ratio", ratio, Limits::denorm_min(), Limits::max(), "positive and finite");
    if constexpr (!Rule::is_current) {
      for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
        rule_.rescale(states_[leaf], ratio);
        scales_[leaf] = states_[leaf].scale;
        max_abs_[leaf] = detail::rescaled(max_abs_[leaf], ratio);
      }
    }
  }

  /// For each leaf, under its path: the scale, the largest magnitude since `update`, and the recorded ones, the oldest first.
  /// The settings of the rule are not part of it.
  [[nodiscard]] StateDict state_dict() const {
    StateDict state = detail::new_state(kind);
    for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
      std::vector<double> numbers;
      for (const float& number : {scales_[leaf], max_abs_[leaf]})
        numbers.push_back(detail::widened(detail::magnitude_bits(number)));
      for (const float& amax : states_[leaf].history) numbers.push_back(detail::widened(detail::magnitude_bits(amax)));
      state.add(key(leaf), std::move(numbers));
    }
    return state;
  }
  /// A run that loads a state goes on with the same bits. Throws std::invalid_argument naming key and value, and changes
  /// nothing, if the state is that of other paths or another format, or if a number is out of range.
  void load_state_dict(const StateDict& state) {
    TensorScales loaded = *this;
    detail::StateReader reader(state, kind);
    for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
      std::vector<double> numbers;
      reader(key(leaf).c_str(), numbers, 0.0, detail::infinity);
      std::vector<float> floats;
      for (const double& number : numbers) floats.push_back(detail::leaf_max_abs(detail::bit_cast<std::uint64_t>(number)));
      if (floats.size() < 2 || !detail::is_positive_and_finite(floats[0])) {
        detail::throw_invalid_argument({key(leaf), " is ", detail::to_text(StateValue(numbers)),
                                        "; it must be a scale, positive and finite, and the largest magnitudes"});
      }
      loaded.scales_[leaf] = floats[0];
      loaded.max_abs_[leaf] = floats[1];
      loaded.states_[leaf] = {floats[0], {floats.begin() + 2, floats.end()}};
    }
    reader.finish();
    loaded.set_inverse_scales();
    *this = std::move(loaded);
  }

 private:
  static constexpr const char* kind = std::is_same_v<typename To::format, e4m3> ? "scales of e4m3" : "scales of e5m2";
  static constexpr float fp8_max = detail::to_float(std::numeric_limits<To>::max());

  void set_inverse_scales() noexcept {
    for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
      const double scale = detail::widened(detail::magnitude_bits(scales_[leaf]));
      inverse_scales_[leaf] = detail::saturated_float(detail::quotient_bits(1.0, scale));
    }
  }
  void record(const detail::LeafMaxima& maxima) noexcept {
    for (std::size_t leaf = 0; leaf < maxima.size(); ++leaf) {
      const float here = detail::leaf_max_abs(maxima[leaf]);
      if (detail::magnitude_bits(here) > detail::magnitude_bits(max_abs_[leaf])) max_abs_[leaf] = here;
    }
  }
  void update_scale(std::size_t leaf) {
    rule_.update(states_[leaf], max_abs_[leaf], fp8_max);
    scales_[leaf] = detail::is_positive_and_finite(states_[leaf].scale) ? states_[leaf].scale : 1.0F;
  }
  /// The key of a leaf in a state.
  [[nodiscard]] std::string key(std::size_t leaf) const {
    return detail::concat({"scale of ", paths_[leaf].empty() ? "the tree" : paths_[leaf]});
  }

  Rule rule_;
  std::vector<std::string> paths_;
  std::vector<typename Rule::State> states_;
  std::vector<float> scales_, inverse_scales_, max_abs_;
  std::function<void(span<float>)> reduce_;
};

HEADROOM_DETAIL_END_NAMESPACE
