// Compares random orders of calls with a slow model of torch.amp.GradScaler
// (torch/amp/grad_scaler.py). Both refuse the same calls, and the others have the same outcome,
// except where docs/systems.md or a comment with "ours" says otherwise.
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using namespace headroom;

namespace {

constexpr int growth_interval = 3;
constexpr std::size_t optimizers = 3;

/// Gradient descent on one weight, which may have no gradient.
struct Optimizer {
  float gradient = 0.0F, weight = 0.0F;
  std::vector<headroom::span<float>> grads{};
  std::vector<headroom::span<float>>& gradients() { return grads; }
  void step() { weight -= gradient; }
};

struct OutOfOrder : std::runtime_error {
  OutOfOrder() : std::runtime_error("RuntimeError, or AssertionError") {}
};

/// torch's scaler. Optimizers are numbered and have one weight each; gradients and weights are
/// float.
class Torch {
 public:
  std::array<std::optional<float>, optimizers> grads{};
  std::array<float, optimizers> weights{};
  double scale = 1024.0;

  double scale_loss() {
    // Ours: all losses of an iteration have one scale
    if (iteration_scale_ == 0.0) iteration_scale_ = scale;
    has_loss_ = true;
    is_over_ = false;
    return iteration_scale_;
  }
  bool unscale(std::size_t i) {
    if (states_[i].unscaled && !states_[i].stepped) throw OutOfOrder();
    if (!grads[i]) return began_ = true;  // ours: an optimizer without gradients is not remembered
    if (states_[i].stepped) throw OutOfOrder();
    if (needs_loss_ && !has_loss_) throw OutOfOrder();  // ours
    states_[i].unscaled = true;
    *grads[i] /= static_cast<float>(iteration_scale_ > 0.0 ? iteration_scale_ : scale);
    if (iteration_scale_ == 0.0) iteration_scale_ = scale;
    began_ = true;
    states_[i].found_inf = !std::isfinite(*grads[i]);
    return !*states_[i].found_inf;
  }
  SkipReason step(std::size_t i) {
    if (states_[i].stepped && !grads[i]) return SkipReason::no_gradients;  // ours, as in unscale
    if (states_[i].stepped) throw OutOfOrder();
    if (!states_[i].unscaled) unscale(i);
    const bool has_inf = states_[i].found_inf.value_or(false);
    states_[i].stepped = states_[i].unscaled;
    if (!grads[i]) {  // ours: no AssertionError, and not remembered
      found_infs_.push_back(states_[i].found_inf);
      states_[i] = {};
      return has_inf ? SkipReason::not_finite : SkipReason::no_gradients;
    }
    if (has_inf) return SkipReason::not_finite;
    weights[i] -= *grads[i];
    return SkipReason::none;
  }
  void update() {
    if (!began_ && !is_over_) throw OutOfOrder();
    for (const State& state : states_) found_infs_.push_back(state.found_inf);
    std::optional<bool> found_inf;
    for (const auto& each : found_infs_) {
      if (each) found_inf = found_inf.value_or(false) || *each;
    }
    if (found_inf.has_value()) {  // _amp_update_scale_
      tracker_ = *found_inf ? 0 : tracker_ + 1;
      if (*found_inf) scale *= 0.5;
      if (tracker_ == growth_interval) scale *= 2.0;
      if (tracker_ == growth_interval) tracker_ = 0;
    }
    end(false);
  }
  void update(double new_scale) {
    scale = new_scale;
    if (began_ || is_over_) end(false);
  }
  void abandon() { end(true); }  // ours
  void load(double saved_scale, int tracker) {
    scale = saved_scale;
    tracker_ = tracker;
    end(began_ || is_over_);  // ours: an update right after a load adjusts nothing
  }
  [[nodiscard]] int tracker() const { return tracker_; }

 private:
  struct State {
    bool unscaled = false, stepped = false;
    std::optional<bool> found_inf{};
  };
  void end(bool is_over) {
    needs_loss_ = needs_loss_ || has_loss_;
    has_loss_ = began_ = false;
    is_over_ = is_over;
    iteration_scale_ = 0.0;
    states_ = {};
    found_infs_.clear();
  }

  std::array<State, optimizers> states_{};
  std::vector<std::optional<bool>> found_infs_{};  // of optimizers that are not remembered
  double iteration_scale_ = 0.0;                   // 0: not known yet
  int tracker_ = 0;
  bool has_loss_ = false, needs_loss_ = false, began_ = false, is_over_ = false;
};

template <class F>
bool is_refused(F f) {
  try {
    f();
  } catch (const OutOfOrder&) {
    return true;
  } catch (const std::logic_error&) {
    return true;
  }
  return false;
}

/// Runs one training with both scalers. Returns the number of calls that were refused.
int refused_in(std::mt19937& random, bool scales) {
  GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, growth_interval));
  std::array<Optimizer, optimizers> ours{};
  Torch torch;
  StateDict saved = scaler.state_dict();
  double saved_scale = 1024.0;
  int saved_tracker = 0, refused = 0;
  for (int call = 0; call < 40; ++call) {
    const std::size_t i = random() % optimizers;
    bool here = false, there = false;
    const auto both = [&](auto of_scaler, auto of_torch) {
      here = is_refused(of_scaler);
      there = is_refused(of_torch);
    };
    switch (random() % 16) {
      case 0:
      case 1:
      case 2: {  // zero_grad and backward of all optimizers
        const double scale = scales ? torch.scale_loss() : torch.scale;
        const float loss = scales ? scaler.scale(1.0F) : scaler.get_scale();
        REQUIRE(static_cast<double>(loss) == scale);
        for (std::size_t each = 0; each < optimizers; ++each) {
          const float gradient =
              random() % 12 == 0 ? support::infinity() : static_cast<float>(random() % 9) - 4.0F;
          ours[each].gradient = gradient * loss;
          ours[each].grads = {{&ours[each].gradient, 1}};
          torch.grads[each] = gradient * loss;
        }
        break;
      }
      case 3:
        ours[i].grads.clear();
        torch.grads[i].reset();
        break;
      case 4:
      case 5: {
        bool finite = false, expected = false;
        both([&] { finite = scaler.unscale_(ours[i]).finite; },
             [&] { expected = torch.unscale(i); });
        REQUIRE(finite == expected);
        break;
      }
      case 6:
        both([&] { scaler.unscale_and_clip_(ours[i], 1e9); }, [&] { torch.unscale(i); });
        break;
      case 7:
      case 8:
      case 9:
      case 10: {
        SkipReason reason = SkipReason::none, expected = SkipReason::none;
        both([&] { reason = scaler.step(ours[i]).reason; }, [&] { expected = torch.step(i); });
        REQUIRE(reason == expected);
        break;
      }
      case 11:
        if (random() % 4 == 0) both([&] { scaler.update(256.0F); }, [&] { torch.update(256.0); });
        break;
      case 12:
        if (random() % 4 == 0) both([&] { scaler.abandon(); }, [&] { torch.abandon(); });
        if (random() % 4 == 0) {
          saved = scaler.state_dict();
          saved_scale = torch.scale;
          saved_tracker = torch.tracker();
        }
        if (random() % 8 == 0)
          both([&] { scaler.load_state_dict(saved); },
               [&] { torch.load(saved_scale, saved_tracker); });
        break;
      default:
        both([&] { scaler.update(); }, [&] { torch.update(); });
    }
    REQUIRE(here == there);
    refused += here ? 1 : 0;
    REQUIRE(static_cast<double>(scaler.get_scale()) == torch.scale);
    for (std::size_t each = 0; each < optimizers; ++each)
      REQUIRE(ours[each].weight == torch.weights[each]);
  }
  return refused;
}

}  // namespace

TEST_CASE("random orders of calls have the same outcome as in torch's scaler") {
  std::mt19937 random(support::seed);
  const int runs = support::cases(2000);
  int refused = 0;
  for (int run = 0; run < runs; ++run) refused += refused_in(random, run % 4 != 0);
  CHECK(refused > runs);
  CHECK(refused < 20 * runs);
}
