// Compiled several times with different flags. UNIT is the name of the copy.
#include "unit.hpp"

#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

namespace {

using headroom::half;

constexpr std::uint16_t half_one = 0x3C00, half_infinity = 0x7C00, half_nan = 0x7E00;

int failed = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  ++failed;
  std::printf("%s: %s\n", NAME_OF(UNIT), what);
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
bool is_nan(std::uint32_t bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }

headroom::DynamicLossScale scale_of_1024() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  return headroom::DynamicLossScale(config);
}

// `planted` is at `place`, or nowhere if place == size. Everything else is 1.
void check_planted(std::size_t size, std::size_t place, std::uint16_t planted) {
  std::vector<half> gradients(size, half::from_bits(half_one));
  if (place < size) gradients[place] = half::from_bits(planted);
  const bool is_finite = place == size;
  expect(headroom::all_finite(gradients) == is_finite, "all_finite");
  expect(headroom::measure(gradients).finite == is_finite, "measure");

  const auto [unscaled, report] = scale_of_1024().unscale<float>(gradients);
  expect(report.finite == is_finite && unscaled.size() == size, "the report of unscale<float>");
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bits = bits_of(unscaled[i]);
    expect(i != place            ? bits == 0x3A800000U
           : planted == half_nan ? is_nan(bits)
                                 : bits == 0x7F800000U,
           "unscale<float>");
  }
  expect(scale_of_1024().unscale_in_place<headroom::allow_fp16_gradients>(gradients).finite ==
             is_finite,
         "the report of unscale_in_place");
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned bits = gradients[i].bits();
    expect(i != place            ? bits == 0x1400
           : planted == half_nan ? (bits & 0x7FFFU) > 0x7C00U
                                 : bits == half_infinity,
           "unscale_in_place");
  }
}

void check_pass_of_threads() {
  std::vector<float> tree(std::size_t{1} << 19, 1024.0F);
  const auto report = scale_of_1024().unscale_in_place(tree, headroom::parallel(2));
  expect(report.finite && bits_of(static_cast<float>(report.max_abs)) == bits_of(1.0F),
         "unscale_in_place by two threads");
  expect(headroom::clip_by_global_norm(tree, 1.0).finite, "clip_by_global_norm");
}

void check_policies() {
  headroom::AnyLossScale policy = headroom::make_loss_scale("megatron", {{"hysteresis", 1}});
  const float before = policy.loss_scale();
  policy = policy.adjust(false);
  expect(bits_of(policy.loss_scale()) == bits_of(before / 2.0F), "AnyLossScale::adjust");
  const auto resumed = headroom::AnyLossScale::from_state_dict(
      headroom::from_text(headroom::to_text(policy.state_dict())));
  expect(resumed == policy, "the state of an AnyLossScale");
}

void check_errors() {
#if HEADROOM_EXCEPTIONS
  try {
    (void)headroom::parallel(0);
    expect(false, "parallel(0) throws nothing");
  } catch (const std::invalid_argument&) {
  }
#endif
}

int check() {
  failed = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{40}, std::size_t{129}}) {
    for (std::size_t place = 0; place <= size; ++place) {
      for (const std::uint16_t planted : {half_infinity, half_nan})
        check_planted(size, place, planted);
    }
  }
  check_errors();
  check_pass_of_threads();
  check_policies();
  check_errors();
  return failed;
}

int active_isa() { return static_cast<int>(headroom::active_isa()); }
void force_portable() { headroom::force_isa(headroom::Isa::portable); }

}  // namespace

extern const Unit UNIT{NAME_OF(UNIT), check, active_isa, force_portable};
