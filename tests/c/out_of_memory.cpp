// Each allocation of a call fails once. The call says so, and can be repeated.
#include <headroom.h>

#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "support/c.hpp"
#include "support/catch.hpp"
#include "support/optimizers.hpp"

namespace {

thread_local int allocations_left = -1;  // negative: no limit

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = allocations_left == 0 ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  allocations_left -= allocations_left > 0 ? 1 : 0;
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

/// A call that may run out of memory.
using Call = std::function<headroom_status()>;
/// Makes fresh calls and lets the first allocation of each fail, then the second, until all
/// succeed. A call that failed is repeated. Returns how many failed.
int failures_of(const std::function<std::vector<Call>()>& make) {
  int failures = 0;
  for (int n = 0, before = -1; before != failures; ++n) {
    before = failures;
    for (const Call& call : make()) {
      allocations_left = n;
      const headroom_status status = call();
      allocations_left = -1;
      if (status == HEADROOM_OK) continue;
      CHECK(status == HEADROOM_OUT_OF_MEMORY);
      CHECK(call() == HEADROOM_OK);
      ++failures;
    }
  }
  return failures;
}
template <class F>
Call in_cpp(F f) {
  return [f]() mutable {
    try {
      f();
    } catch (const std::bad_alloc&) {
      return HEADROOM_OUT_OF_MEMORY;
    }
    return HEADROOM_OK;
  };
}

/// More leaves than a plan has room for.
struct Optimizer {
  std::vector<support::Weights> grads = std::vector<support::Weights>(40, {1.0F});
  std::vector<support::Weights>& gradients() { return grads; }
  int steps = 0;
  void step() { ++steps; }
  void step(std::vector<support::Weights>&) { ++steps; }
};

}  // namespace

TEST_CASE("a GradScaler's call that runs out of memory can be repeated") {
  using Scaler = headroom::GradScaler<>;
  const int failures = failures_of([] {
    const auto scaler = std::make_shared<Scaler>(1024.0);
    const auto a = std::make_shared<Optimizer>(), b = std::make_shared<Optimizer>();
    return std::vector<Call>{
        in_cpp([=] { (void)scaler->unscale_(*a); }),
        in_cpp([=] { scaler->step(*a); }),
        in_cpp([=] { scaler->step(*b); }),
        in_cpp([=] { scaler->step_gradients(std::as_const(a->grads), [](auto&) {}); }),
        in_cpp([=] { scaler->update(); }),
        in_cpp([=] { CHECK(scaler->policy().counter() == 1); })};
  });
  CHECK(failures > 6);
}

TEST_CASE("a submit that runs out of memory can be repeated") {
  const int failures = failures_of([] {
    static Optimizer optimizer, other;
    static int runs = 0;
    // The destructor of the scaler before has ended
    CHECK((optimizer.steps == runs && other.steps == runs));
    ++runs;
    const auto scaler = std::make_shared<headroom::AsyncGradScaler<>>();
    return std::vector<Call>{in_cpp([=] { (void)scaler->submit(optimizer); }), in_cpp([=] {
                               (void)scaler->submit_gradients(other, std::ref(other.grads));
                             })};
  });
  CHECK(failures > 3);
}

TEST_CASE("C: a call that runs out of memory returns HEADROOM_OUT_OF_MEMORY and can be repeated") {
  static std::vector<float> from(40, 1.0F), to(40);
  std::vector<headroom_tensor> sources, destinations;
  for (std::size_t i = 0; i < 40; ++i) {
    sources.push_back({&from[i], 1, HEADROOM_FLOAT32, 0, nullptr, nullptr});
    destinations.push_back({&to[i], 1, HEADROOM_FLOAT32, 0, nullptr, nullptr});
  }
  const headroom_tensor *const in = sources.data(), *const out = destinations.data();
  static headroom_loss_scale *policy, *loaded;
  static headroom_grad_scaler* scaler;
  static char text[1000];
  const int failures = failures_of([=] {
    headroom_loss_scale_free(policy);
    headroom_loss_scale_free(loaded);
    headroom_grad_scaler_free(scaler);
    policy = loaded = nullptr;
    scaler = nullptr;
    const auto save = [](auto how, const auto* handle) {
      std::size_t size = sizeof text;
      return how(handle, text, &size);
    };
    std::vector<Call> calls{
        [] { return headroom_loss_scale_make("dynamic", "initial_scale = 8.0", &policy); },
        [=] { return save(headroom_loss_scale_save, policy); },
        [] { return headroom_loss_scale_load(text, &loaded); },
        [] { return headroom_grad_scaler_make(policy, &scaler); },
        [] { return headroom_grad_scaler_set_threads(scaler, 2); },
        [=] { return headroom_grad_scaler_unscale(scaler, 1, in, 40, nullptr); },
        [=] { return headroom_grad_scaler_step(scaler, 1, in, 40, nullptr); },
        [=] { return headroom_grad_scaler_step_into(scaler, 2, in, out, 40, nullptr); },
        [] { return headroom_grad_scaler_update(scaler); },
        [] { return headroom_loss_scale_adjust(policy, 1, 1.0); },
        [=] { return save(headroom_grad_scaler_save, scaler); },
        [] { return headroom_grad_scaler_load(scaler, text); }};
    for (const auto& verb : support::verbs_in_place)
      calls.push_back([=] { return verb(in, 40, 1, nullptr); });
    for (const std::size_t i : {0U, 1U, 3U, 4U})
      calls.push_back([=] { return support::verbs_into[i](in, out, 40, 1, nullptr); });
    static const std::vector<float> factors(40, 1.0F);
    calls.push_back([=] { return headroom_dequantize(in, out, 40, factors.data(), 1); });
    return calls;
  });
  headroom_loss_scale_free(policy);
  headroom_loss_scale_free(loaded);
  headroom_grad_scaler_free(scaler);
  CHECK(failures > 20);
}
