#include <headroom/headroom.hpp>
#include <headroom/observe/history.hpp>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/threads.hpp"

namespace {

std::atomic<std::size_t> allocations{0};  // in all threads, also by other tests

}  // namespace

// Not inline, because g++ 12 would warn that new and free do not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

/// The number of allocations in 20 calls of `f` after the first.
template <class F>
std::size_t allocations_after_first(F f) {
  f();
  const std::size_t before = allocations;
  for (int i = 0; i < 20; ++i) f();
  return allocations - before;
}

}  // namespace

TEST_CASE("allocations are counted, aligned ones and those of other threads, too") {
  // By function calls, because the compiler may remove a new-expression.
  CHECK(allocations_after_first([] { ::operator delete(::operator new(3)); }) == 20);
  constexpr auto line = std::align_val_t{64};
  CHECK(allocations_after_first([=] { ::operator delete(::operator new(3, line), line); }) == 20);
  CHECK(allocations_after_first(
            [] { support::in_two_threads([] { ::operator delete(::operator new(3)); }); }) == 40);
}

TEST_CASE("iterations after the first allocate nothing") {
  headroom::GradScaler<> scaler;
  support::Owner one{std::vector(4, support::Weights(16, 1.0F))}, other = one;
  CHECK(allocations_after_first([&] {
          (void)scaler.scale(1.0F);
          (void)scaler.step(one);
          scaler.update();
        }) == 0);
  CHECK(allocations_after_first([&] {
          (void)scaler.scale(1.0F);
          (void)scaler.unscale_(one);
          (void)scaler.unscale_and_clip_(other, 1e-3);
          (void)scaler.step(one);
          (void)scaler.step(other);
          scaler.update();
        }) == 0);
  CHECK(allocations_after_first([&] {
          one.grads[1][2] = support::infinity();
          (void)scaler.scale(1.0F);
          (void)scaler.step(one);  // the path "[1]" fits into a string without an allocation
          scaler.update();
        }) == 0);
}

TEST_CASE("what is not remembered is added up, so that nothing grows if update is missing") {
  headroom::GradScaler scaler(headroom::presets::torch(1024.0));
  const auto step = [&](float gradient) {
    const std::vector<float> grads(1, gradient);
    return scaler.step_gradients(grads, [](auto&) {}).skipped;
  };
  int number = 0;
  CHECK(allocations_after_first([&] {
          for (int i = 0; i < 100; ++i, ++number)
            CHECK(step(number == 500 ? support::infinity() : 1024.0F) == (number == 500));
        }) == 20 * 100 * 2);  // the gradients, and a new tree of them
  scaler.update();
  CHECK(scaler.get_scale() == 512.0F);  // the overflow among them counts
  CHECK_FALSE(step(1.0F));
  CHECK_FALSE(scaler.step_gradients(std::vector<float>(), [](auto&) {}).reason ==
              headroom::SkipReason::none);  // none, which does not count
  scaler.update();
  CHECK((scaler.get_scale() == 512.0F && scaler.policy().counter() == 1));
}

TEST_CASE("the on_floor callback is not copied while gradients are finite") {
  headroom::GradScaler<> scaler;
  support::Owner optimizer{std::vector(4, support::Weights(16, 1.0F))};
  const double large[8] = {};
  scaler.set_on_floor([large](const auto&) { CHECK(large[0] == 0.0); });
  CHECK(allocations_after_first([&] {
          (void)scaler.step(optimizer);
          scaler.update();
        }) == 0);
}

TEST_CASE("a verb in place with two threads allocates nothing") {
  std::vector<float> tree(std::size_t{1} << 23, 1.0F);
  CHECK(allocations_after_first(
            [&] { headroom::scale_in_place(tree, 1.0, headroom::parallel(2)); }) == 0);
}

TEST_CASE("a history allocates only if a path is longer than all before it in the same slot") {
  headroom::History history(4);
  const headroom::NonFinite place{"a path that is longer than fifteen characters", 0,
                                  headroom::NonFiniteKind::nan, 1, 0};
  headroom::StepResult<void> overflow{true, {false, 0.0}, headroom::SkipReason::not_finite, place};
  CHECK(allocations_after_first([&] { history.record(headroom::StepResult<void>{}); }) == 0);
  for (int i = 0; i < 3; ++i) history.record(overflow);
  CHECK(allocations_after_first([&] { history.record(overflow); }) == 0);
  CHECK(allocations_after_first([&] {
          history.record(1024.0F, headroom::GradientReport{true, 1.0});
        }) == 0);
  CHECK(allocations_after_first([&] { history.record(overflow); }) == 0);
}

TEST_CASE("verbs that read a tree of up to 32 leaves or change it in place allocate nothing") {
  std::vector<std::vector<float>> tree(32, std::vector<float>(5, 1.0F));
  const headroom::ConstantLossScale policy(2.0F);
  CHECK(allocations_after_first([&] { (void)policy.unscale_in_place(tree); }) == 0);
  CHECK(allocations_after_first([&] { (void)headroom::measure(tree); }) == 0);
  CHECK(allocations_after_first([&] { (void)headroom::all_finite(tree); }) == 0);
  CHECK(allocations_after_first([&] { (void)policy.unscale_in_place(tree[0]); }) == 0);
}
