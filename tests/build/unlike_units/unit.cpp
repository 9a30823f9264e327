// Compiled several times with unlike flags; UNIT is the name of the one.
#include "unit.hpp"

#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>

#include <pthread.h>

#include <atomic>
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

// `planted` stands at `place`, or nowhere where place == size; everything else is 1.
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
    expect(i != place ? bits == 0x3A800000U : planted == half_nan ? is_nan(bits) : bits == 0x7F800000U, "unscale<float>");
  }
  expect(scale_of_1024().unscale_in_place(gradients).finite == is_finite, "the report of unscale_in_place");
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
  const auto report = scale_of_1024().unscale_in_place(headroom::parallel(2), tree);
  expect(report.finite && bits_of(static_cast<float>(report.max_abs)) == bits_of(1.0F), "unscale_in_place by two threads");
  expect(headroom::clip_by_global_norm(tree, 1.0).finite, "clip_by_global_norm");
}

struct Optimizer {
  static constexpr bool allow_fp16_gradients = true;
  std::vector<half> grads = std::vector<half>(100);
  int steps = 0;
  std::vector<half>& gradients() { return grads; }
  void step() { ++steps; }
};

void check_grad_scaler() {
  headroom::GradScaler<> scaler(scale_of_1024());
  Optimizer optimizer;
  for (const std::uint16_t planted : {half_one, half_infinity}) {
    (void)scaler.scale(1.0F);
    for (half& gradient : optimizer.grads) gradient = half::from_bits(half_one);
    optimizer.grads[77] = half::from_bits(planted);
    expect(scaler.step(optimizer).skipped == (planted == half_infinity), "GradScaler::step");
    scaler.update();
  }
  expect(optimizer.steps == 1 && bits_of(scaler.get_scale()) == bits_of(512.0F), "GradScaler");
}

void check_policies() {
  headroom::AnyLossScale policy = headroom::make_loss_scale("megatron", {{"hysteresis", 1}});
  const float before = policy.loss_scale();
  policy = policy.adjust(false);
  expect(bits_of(policy.loss_scale()) == bits_of(before / 2.0F), "AnyLossScale::adjust");
  const auto resumed = headroom::AnyLossScale::from_state_dict(headroom::from_text(headroom::to_text(policy.state_dict())));
  expect(resumed == policy, "the state of an AnyLossScale");
}

void check_errors() {
#if HEADROOM_EXCEPTIONS
  try {
    (void)headroom::parallel(0);
    expect(false, "parallel(0) throws nothing");
  } catch (const std::invalid_argument&) {
  }
  for (int call = 0; call < 20; ++call) {
    try {
      headroom::parallel(2).run(2, [](std::size_t) { throw std::runtime_error("task"); });
      expect(false, "the error of a task is lost");
    } catch (const std::runtime_error&) {
    }
  }
#endif
}

int check() {
  failed = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{40}, std::size_t{129}}) {
    for (std::size_t place = 0; place <= size; ++place) {
      for (const std::uint16_t planted : {half_infinity, half_nan}) check_planted(size, place, planted);
    }
  }
  check_errors();
  check_pass_of_threads();
  check_grad_scaler();
  check_policies();
  check_errors();
  return failed;
}

void run_two(unsigned long threads[2]) {
  std::atomic<int> arrived{0};
  headroom::parallel(2).run(2, [&](std::size_t task) {
    threads[task] = static_cast<unsigned long>(pthread_self());
    ++arrived;
    for (int i = 0; arrived < 2 && i < 100000; ++i)
      headroom::detail::pause_or_yield(65535);  // so that one thread cannot do both
  });
}

int active_isa() { return static_cast<int>(headroom::active_isa()); }
void force_scalar() { headroom::force_isa(headroom::Isa::scalar); }

}  // namespace

extern const Unit UNIT{NAME_OF(UNIT), check, run_two, active_isa, force_scalar};
