#include <headroom/headroom.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using namespace headroom;
using support::bits_of;

namespace {

using Halves = std::vector<std::vector<half>>;
using Floats = std::vector<std::vector<float>>;
const Halves grads = {{half(3.0F), half(-1.0F)}, {}, {half(0.1F)}};
const Floats wide_grads = {{3.0F, -1.0F}, {}, {0.1F}};

bool same(const GradientReport& a, const GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

/// Checks each verb that returns a tree. `executor...` is one executor or none.
template <class Policy, class... Executor>
void check_verbs(const Policy& policy, const Executor&... executor) {
  const float scale = policy.loss_scale();
  CHECK(policy.scale(1.5F, executor...) == headroom::scale(1.5F, static_cast<double>(scale)));
  static_assert(std::is_same_v<decltype(policy.scale(half(1.0F), executor...)), float>);
  CHECK(policy.scale(grads, executor...) == headroom::scale(grads, static_cast<double>(scale)));

  const auto same_dtype = policy.template unscale<headroom::same_dtype>(grads, executor...);
  const auto expected = headroom::unscale<headroom::same_dtype>(grads, scale);
  static_assert(std::is_same_v<decltype(same_dtype), const Unscaled<Halves>>);
  CHECK(same_dtype.grads == expected.grads);
  CHECK(same(same_dtype.report, expected.report));
  const auto wide = policy.unscale(grads, executor...),
             expected_wide = headroom::unscale<float>(grads, scale);
  static_assert(std::is_same_v<decltype(wide), const Unscaled<Floats>>);
  CHECK(wide.grads == expected_wide.grads);
  CHECK(same(wide.report, expected_wide.report));
}
template <class Policy, class... Executor>
void check_verbs_that_write(const Policy& policy, const Executor&... executor) {
  const float scale = policy.loss_scale();
  Floats ours = wide_grads, theirs = wide_grads;
  policy.scale_in_place(ours, executor...);
  headroom::scale_in_place(theirs, static_cast<double>(scale));
  CHECK(ours == theirs);
  CHECK(
      same(policy.unscale_in_place(ours, executor...), headroom::unscale_in_place(theirs, scale)));
  CHECK(ours == theirs);
  CHECK(same(policy.unscale_into(grads, ours, executor...),
             headroom::unscale_into(grads, theirs, scale)));
  CHECK(ours == theirs);
  CHECK(same(policy.accumulate_into(grads, ours, executor...),
             headroom::accumulate_into(grads, theirs, scale)));
  CHECK(ours == theirs);
  for (const double max_norm : {1e-3, 1e30}) {
    const auto norm = policy.unscale_and_clip_in_place(ours, max_norm, executor...);
    const auto expected = headroom::unscale_and_clip_in_place(theirs, scale, max_norm);
    CHECK(same(norm, expected));
    CHECK(bits_of(norm.norm) == bits_of(expected.norm));
    CHECK(ours == theirs);
  }
}
template <class Policy>
void check_policy(const Policy& policy) {
  check_verbs(policy);
  check_verbs(policy, headroom::parallel(2));
  check_verbs_that_write(policy);
  check_verbs_that_write(policy, headroom::parallel(2));
}

}  // namespace

TEST_CASE("a policy's verbs equal the free verbs with its scale, with and without an executor") {
  check_policy(ConstantLossScale(3.0F));
  check_policy(DynamicLossScale());
  check_policy(AnyLossScale(ConstantLossScale(41.0F)));
  check_verbs_that_write(NoOpLossScale());
  check_verbs_that_write(NoOpLossScale(), headroom::parallel(2));
}

TEST_CASE("after adjust the verbs use the new scale") {
  HysteresisScale policy({{8.0F}, 1});
  CHECK(policy.scale(1.0F) == 8.0F);
  policy = policy.adjust(policy.unscale(std::vector<float>{1.0F, 0.0F}).report).adjust(false);
  CHECK(policy.loss_scale() == 4.0F);
  CHECK(policy.scale(1.0F) == 4.0F);
  CHECK(policy.unscale(std::vector<float>{1.0F}).grads == std::vector<float>{0.25F});
}

namespace {

/// A user's policy: after three overflows in all, the scale stays 1.
class GivesUp : public LossScaleVerbs<GivesUp> {
 public:
  [[nodiscard]] float loss_scale() const { return overflows_ < 3 ? 1024.0F : 1.0F; }
  [[nodiscard]] GivesUp adjust(bool grads_finite) const {
    GivesUp next = *this;
    next.overflows_ += grads_finite ? 0 : 1;
    return next;
  }
  [[nodiscard]] GivesUp adjust(const GradientReport& report) const { return adjust(report.finite); }

 private:
  int overflows_ = 0;
};

/// The same contract without the verbs.
struct Plain {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  [[nodiscard]] Plain adjust(bool) const { return *this; }
  [[nodiscard]] Plain adjust(const GradientReport&) const { return *this; }
};

// Near misses: each differs from Plain in one thing.
struct ScaleIsDouble : Plain {
  [[nodiscard]] static double loss_scale() { return 1.0; }
  [[nodiscard]] ScaleIsDouble adjust(bool) const { return *this; }
  [[nodiscard]] ScaleIsDouble adjust(const GradientReport&) const { return *this; }
};
struct AdjustsItself {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  void adjust(bool) {}
  void adjust(const GradientReport&) {}
};
struct ReturnsAnother : Plain {};  // adjust returns a Plain
struct TakesOnlyBool {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  [[nodiscard]] TakesOnlyBool adjust(bool) const { return *this; }
};

static_assert(is_loss_scale_v<NoOpLossScale> && is_loss_scale_v<ConstantLossScale>);
static_assert(is_loss_scale_v<DynamicLossScale> && is_loss_scale_v<HysteresisScale>);
static_assert(is_loss_scale_v<GivesUp> && is_loss_scale_v<Plain>);

static_assert(!is_loss_scale_v<int> && !is_loss_scale_v<float> && !is_loss_scale_v<void> &&
              !is_loss_scale_v<std::string>);
static_assert(!is_loss_scale_v<LossScaleConfig> && !is_loss_scale_v<GradientReport>);
static_assert(!is_loss_scale_v<DynamicLossScale&> && !is_loss_scale_v<const DynamicLossScale>);
static_assert(!is_loss_scale_v<ScaleIsDouble> && !is_loss_scale_v<AdjustsItself>);
static_assert(!is_loss_scale_v<ReturnsAnother> && !is_loss_scale_v<TakesOnlyBool>);

}  // namespace

TEST_CASE("a user's policy has the verbs of LossScaleVerbs") {
  GivesUp policy;
  const std::vector<half> scaled = {half(1024.0F), half(-512.0F)};
  const auto unscaled = policy.unscale<float>(scaled);
  CHECK(unscaled.grads == std::vector<float>{1.0F, -0.5F});
  CHECK(unscaled.report.finite);
  CHECK(policy.scale(2.0F) == 2048.0F);
  CHECK(policy.scale(half(2.0F)) == 2048.0F);
  for (int step = 0; step < 3; ++step) policy = policy.adjust(GradientReport{false, 0.0});
  CHECK(policy.scale(2.0F) == 2.0F);
}

namespace {

template <class Policy, class Argument>
using adjust_t = decltype(std::declval<const Policy&>().adjust(std::declval<Argument>()));
template <class Policy, class... Arguments>
constexpr bool adjusts = (headroom::detail::is_detected_v<adjust_t, Policy, Arguments> && ...);
template <class Policy, class... Arguments>
constexpr bool refuses = !(headroom::detail::is_detected_v<adjust_t, Policy, Arguments> || ...);

template <class... Policies>
constexpr bool adjust_only_by_bools_and_reports() {
  return (
      (adjusts<Policies, bool, bool&, std::vector<bool>::reference, GradientReport, GradientNorm> &&
       refuses<Policies, double, const double&, float, int, std::size_t, const GradientReport*,
               std::nullptr_t>)&&...);
}
static_assert(adjust_only_by_bools_and_reports<
              NoOpLossScale, ConstantLossScale, DynamicLossScale, HysteresisScale, AmaxLossScale,
              DeepSpeedLossScale, CerebrasLossScale, FairseqLossScale, AnyLossScale>());

template <class Scaler, class Argument>
using update_t = decltype(std::declval<Scaler&>().update(std::declval<Argument>()));
template <class Scaler, class Argument>
using set_executor_t = decltype(std::declval<Scaler&>().set_executor(std::declval<Argument>()));
struct Pool {
  [[nodiscard]] static std::size_t concurrency() { return 2; }
  static void run(std::size_t n, const Executor::Task& task) {
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};
using headroom::detail::is_detected_v;
using Scaler = GradScaler<>;
static_assert(is_detected_v<update_t, Scaler, float> && is_detected_v<update_t, Scaler, double>);
static_assert(!is_detected_v<update_t, Scaler, bool> &&
              !is_detected_v<update_t, Scaler, const bool&>);
static_assert(is_detected_v<set_executor_t, Scaler, Pool&> &&
              is_detected_v<set_executor_t, Scaler, const Pool&>);
static_assert(is_detected_v<set_executor_t, Scaler, Executor> &&
              is_detected_v<set_executor_t, Scaler, const Executor&>);
static_assert(!is_detected_v<set_executor_t, Scaler, Pool> &&
              !is_detected_v<set_executor_t, Scaler, const Pool>);

static_assert(!std::is_constructible_v<Scaler, bool> &&
              !std::is_constructible_v<Scaler, double, bool>);

/// A range of references, as a model's layers() may return by value.
struct Range {
  std::vector<float>* first = nullptr;
  std::size_t n = 0;
  [[nodiscard]] std::vector<float>* begin() const { return first; }
  [[nodiscard]] std::vector<float>* end() const { return first + n; }
  [[nodiscard]] std::size_t size() const { return n; }
};
/// Views that cannot be copied.
struct Views {
  headroom::span<float> view;
  explicit Views(std::vector<float>& of) : view(of) {}
  Views(const Views&) = delete;
  HEADROOM_TREE(Views, view)
};

static_assert(!std::is_constructible_v<headroom::span<float>, std::vector<float>>);
static_assert(std::is_constructible_v<headroom::span<float>, std::vector<float>&>);
static_assert(std::is_constructible_v<headroom::span<float>, headroom::span<float>>);
static_assert(std::is_constructible_v<headroom::span<const float>, std::vector<float>>);

}  // namespace

template <>
struct headroom::tree_traits<Range> {
  static constexpr branch_kind kind = branch_kind::sequence;
};

TEST_CASE("temporary views may be written to") {
  std::vector<float> a = {2.0F, 4.0F}, b = {6.0F};
  const ConstantLossScale policy(2.0F);
  const auto views = [&] {
    return std::map<std::string, headroom::span<float>>{{"a", a}, {"b", b}};
  };
  CHECK(policy.unscale_in_place(std::tie(a, b), Pool()).max_abs == 3.0);
  CHECK(policy.unscale_in_place(views()).max_abs == 1.5);
  CHECK(policy.unscale_in_place(headroom::span<float>(a)).max_abs == 0.5);
  policy.scale_in_place(std::vector{std::ref(a), std::ref(b)});
  CHECK((a == std::vector<float>{0.5F, 1.0F} && b == std::vector<float>{3.0F}));
  const std::vector<float> source = {8.0F, 16.0F};
  CHECK(policy.unscale_into(source, headroom::span<float>(a)).max_abs == 8.0);
  policy.accumulate_into(std::tie(source), std::tie(a));
  headroom::cast_into(std::tie(b), std::tie(b));
  CHECK(policy.unscale_and_clip_in_place(std::tie(a, b), 1.0).finite);
  std::vector<float> two[2] = {{2.0F}, {4.0F}};
  CHECK(policy.unscale_in_place(Range{two, 2}).max_abs == 2.0);
  std::vector<headroom::span<float>> moved = {a, b};
  NoOpLossScale().scale_in_place(std::move(moved));
  CHECK(moved.size() == 2);
  NoOpLossScale().scale_in_place(Views(a));
  policy.scale_in_place(Views(a));
}
