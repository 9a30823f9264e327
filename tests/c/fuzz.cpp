#include <headroom.h>

#include <headroom/headroom.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/c.hpp"
#include "support/catch.hpp"
#include "support/generator.hpp"
#include "support/samples.hpp"

// Random sequences of calls, with random wrong arguments. A failed call must write nothing. What a
// scaler does must follow a simple model. tests/fuzz/c.cpp runs them by libFuzzer, too.

namespace {

using support::below;
using support::one_in;

/// Everything that calls may write. Tensors lie anywhere in `memory`.
struct FuzzedWorld {
  alignas(8) unsigned char memory[4096];
  headroom_report report;
  headroom_step step;
  double scaled;
} arguments, arguments_before;

/// Six that are supported, two integers, three that are not supported.
constexpr headroom_dtype dtypes[] = {0x220, 0x210, 0x240, 0x410, 0xA08,     0xC08,
                                     0x020, 0x608, 0x340, 0x211, 0xFFFFFFFF};
/// Arguments of one verb, most of them right.
struct Arguments {
  headroom_tensor from[4], to[4];
  int64_t numbers[8][2][3];  // shapes and strides
  std::size_t n = below(5);
  int32_t threads = one_in(20) ? -1 : static_cast<int32_t>(below(3));

  Arguments() {
    const headroom_dtype usual = dtypes[below(6)], usual_to = dtypes[below(6)];
    const bool same_shapes = !one_in(3);
    for (std::size_t i = 0; i < 4; ++i) {
      from[i] = random_tensor(numbers[i], one_in(8) ? dtypes[below(11)] : usual);
      to[i] = random_tensor(numbers[4 + i], one_in(8) ? dtypes[below(11)] : usual_to);
      if (same_shapes)
        to[i] = {to[i].data, from[i].size, to[i].dtype, from[i].ndim, from[i].shape, nullptr};
      if (one_in(6)) to[i] = from[i];
    }
  }

 private:
  /// Its elements are in `memory`: at most 8 x 8 x 8 of them, 8 bytes each, from 512 on, in steps
  /// of up to 4 in both directions.
  static headroom_tensor random_tensor(int64_t (&numbers)[2][3], headroom_dtype dtype) {
    for (int64_t& length : numbers[0]) length = one_in(20) ? -3 : static_cast<int64_t>(below(5));
    for (int64_t& stride : numbers[1]) stride = static_cast<int64_t>(below(9)) - 4;
    headroom_tensor tensor{
        arguments.memory + 512 + below(2000), below(40), dtype, 0, nullptr, nullptr};
    if (one_in(20)) tensor.data = nullptr;
    if (one_in(2)) return tensor;
    tensor.ndim =
        one_in(20) ? -1 - static_cast<int32_t>(below(100)) : static_cast<int32_t>(below(4));
    tensor.shape = one_in(30) ? nullptr : numbers[0];
    tensor.strides = one_in(2) ? nullptr : numbers[1];
    if (tensor.ndim > 0 && !one_in(10)) tensor.size = 0;
    return tensor;
  }
};

headroom_status call_verb() {
  const Arguments a;
  const auto *const from = one_in(30) ? nullptr : a.from, *const to = one_in(30) ? nullptr : a.to;
  headroom_report* const report = one_in(4) ? nullptr : &arguments.report;
  if (one_in(2)) return support::verbs_in_place[below(6)](from, a.n, a.threads, report);
  return support::verbs_into[below(6)](from, to, a.n, a.threads, report);
}

/// What a scaler should do. Optimizer 0 has one float tensor, 1 has a bfloat16 and an integer
/// tensor, 2 has no gradients, and 3 has fp16 gradients, for step_into.
struct Model {
  struct Optimizer {
    bool is_unscaled = false, is_stepped = false, is_finite = true, reducer_failed = false;
    int32_t reason = HEADROOM_SKIP_NONE;
  };
  enum Reducer { none, agrees, overflows, fails };

  headroom::DynamicLossScale policy = headroom::presets::torch();
  float iteration_scale = 0.0F;
  bool has_scaled = false, needs_scale = false, is_abandoned = false;
  int reducer = none;
  std::map<std::size_t, Optimizer> optimizers;

  void scale() {
    if (iteration_scale == 0.0F) iteration_scale = policy.loss_scale();
    has_scaled = true;
    is_abandoned = false;
  }
  void end_iteration(bool abandoned) {
    needs_scale = needs_scale || has_scaled;
    has_scaled = false;
    is_abandoned = abandoned;
    iteration_scale = 0.0F;
    optimizers.clear();
  }
  /// The status of a call that unscales, steps, or does both.
  headroom_status call(std::size_t id, bool is_finite, bool unscales, bool steps) {
    const auto found = optimizers.find(id);
    const bool is_known = found != optimizers.end();
    if (is_known && (found->second.is_stepped || (unscales && found->second.is_unscaled)))
      return HEADROOM_LOGIC_ERROR;
    if (is_known && unscales && found->second.reducer_failed) return HEADROOM_LOGIC_ERROR;
    if (!is_known) {
      if (needs_scale && !has_scaled && id != 2) return HEADROOM_LOGIC_ERROR;
      Optimizer& made = optimizers[id];
      made.is_finite = is_finite && reducer != overflows && reducer != fails;
      made.reason = !made.is_finite              ? HEADROOM_SKIP_NOT_FINITE
                    : id == 2 && reducer == none ? HEADROOM_SKIP_NO_GRADIENTS
                                                 : HEADROOM_SKIP_NONE;
      made.reducer_failed = reducer == fails;
      if (reducer == fails) return HEADROOM_RUNTIME_ERROR;
    }
    optimizers[id].is_unscaled = true;
    optimizers[id].is_stepped = steps;
    return HEADROOM_OK;
  }
  headroom_status update() {
    if (optimizers.empty() && !is_abandoned) return HEADROOM_LOGIC_ERROR;
    bool is_finite = true, has_gradients = false;
    for (const auto& [id, optimizer] : optimizers) {
      has_gradients = has_gradients || optimizer.reason != HEADROOM_SKIP_NO_GRADIENTS;
      is_finite = is_finite && optimizer.is_finite;
    }
    if (has_gradients) policy = policy.adjust(is_finite);
    end_iteration(false);
    return HEADROOM_OK;
  }
};

headroom_status reduce_model(void* model, int32_t* finite, double*, double*, uint64_t) {
  const int reducer = static_cast<Model*>(model)->reducer;
  if (reducer == Model::overflows) *finite = 0;
  return reducer == Model::fails ? 9 : HEADROOM_OK;
}

struct Sequence {
  const support::Scaler owner = support::make_scaler();
  headroom_grad_scaler* const scaler = owner.get();
  Model model;
  float fp32 = 3.0F, to = 0.0F;
  uint16_t bf16 = 0x4040, fp16 = 0x4200;
  int32_t integer = 0x7F800000;
  bool is_wrong = false;  // an argument

  template <class T>
  [[nodiscard]] T* or_null(T* argument) const {
    return is_wrong ? nullptr : argument;
  }
  /// After a call that ends the iteration unless it fails.
  void begin() {
    fp32 = one_in(6) ? INFINITY : 3.0F;
    bf16 = one_in(6) ? 0x7FC0 : 0x4040;
    fp16 = one_in(6) ? 0xFC00 : 0x4200;
  }
  [[nodiscard]] bool is_finite(std::size_t id) const {
    return (id != 0 || std::isfinite(fp32)) && (id != 1 || bf16 != 0x7FC0) &&
           (id != 3 || fp16 != 0xFC00);
  }
  /// Calls the scaler and checks its status and results against the model.
  headroom_status call() {
    is_wrong = one_in(12);
    const unsigned kind = static_cast<unsigned>(below(8));
    headroom_status expected = HEADROOM_INVALID_ARGUMENT;
    const headroom_status status =
        kind < 5 ? call_with_gradients(kind < 2, expected) : call_without(kind, expected);
    REQUIRE(status == expected);
    if (status == HEADROOM_OK && model.optimizers.empty()) begin();
    return status;
  }

 private:
  headroom_status call_with_gradients(bool unscales, headroom_status& expected) {
    const std::size_t id = below(4), n = id == 1 ? 2 : id == 2 && !is_wrong ? 0 : 1;
    const headroom_tensor lists[4][2] = {{{&fp32, 1, HEADROOM_FLOAT32, 0, nullptr, nullptr}, {}},
                                         {{&integer, 1, 32, 0, nullptr, nullptr},
                                          {&bf16, 1, HEADROOM_BFLOAT16, 0, nullptr, nullptr}},
                                         {},
                                         {{&fp16, 1, HEADROOM_FLOAT16, 0, nullptr, nullptr}, {}}};
    const headroom_tensor destination{&to, 1, HEADROOM_FLOAT32, 0, nullptr, nullptr};
    const headroom_tensor* const grads = or_null(lists[id]);
    if (!is_wrong && !(unscales && id == 3))
      expected = model.call(id, is_finite(id), unscales || id == 3, !unscales);
    const Model::Optimizer optimizer =
        expected == HEADROOM_OK ? model.optimizers[id] : Model::Optimizer();
    headroom_status status = HEADROOM_OK;
    if (unscales) {
      status = one_in(2) ? headroom_grad_scaler_unscale(scaler, id, grads, n, &arguments.report)
                         : headroom_grad_scaler_unscale_and_clip(scaler, id, grads, n, 2.0,
                                                                 &arguments.report);
      if (status == HEADROOM_OK) REQUIRE((arguments.report.finite == 1) == optimizer.is_finite);
      return status;
    }
    status = id == 3 ? headroom_grad_scaler_step_into(scaler, id, lists[id], or_null(&destination),
                                                      1, &arguments.step)
                     : headroom_grad_scaler_step(scaler, id, grads, n, &arguments.step);
    if (status == HEADROOM_OK) REQUIRE(arguments.step.reason == optimizer.reason);
    if (status == HEADROOM_OK)
      REQUIRE(arguments.step.skipped == (arguments.step.reason != HEADROOM_SKIP_NONE));
    return status;
  }
  headroom_status call_without(unsigned kind, headroom_status& expected) {
    if (kind == 5) {
      if (!is_wrong) expected = model.update();
      return headroom_grad_scaler_update(or_null(scaler));
    }
    if (!is_wrong) expected = HEADROOM_OK;
    if (kind == 6) {
      if (!is_wrong) model.scale();
      const headroom_status status =
          headroom_grad_scaler_scale(scaler, 1.0, or_null(&arguments.scaled));
      REQUIRE((is_wrong || static_cast<float>(arguments.scaled) == model.iteration_scale));
      return status;
    }
    if (one_in(3)) {
      if (!is_wrong) model.end_iteration(true);
      return headroom_grad_scaler_abandon(or_null(scaler));
    }
    if (one_in(2) && model.optimizers.empty()) {
      if (!is_wrong) model.reducer = static_cast<int>(below(4));
      return headroom_grad_scaler_set_reducer(
          or_null(scaler), model.reducer == Model::none ? nullptr : reduce_model, &model);
    }
    char text[500];
    std::size_t size = sizeof text;
    REQUIRE(headroom_grad_scaler_save(scaler, text, &size) == HEADROOM_OK);
    if (is_wrong) text[below(7)] = '=';  // in the first key
    if (!is_wrong) model.end_iteration(model.is_abandoned || !model.optimizers.empty());
    return headroom_grad_scaler_load(scaler, text);
  }
};

std::vector<unsigned char> random_bytes() {
  std::minstd_rand random(support::seed);
  std::vector<unsigned char> bytes(2 * sizeof arguments.memory);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 8);
  return bytes;
}

void run_sequence() {
  static const std::vector<unsigned char> bytes = random_bytes();
  std::memcpy(arguments.memory, bytes.data() + below(sizeof arguments.memory),
              sizeof arguments.memory);
  Sequence sequence;
  for (std::size_t calls = below(24); calls > 0; --calls) {
    arguments.report.struct_size =
        one_in(30) ? static_cast<uint32_t>(below(4)) : static_cast<uint32_t>(4 + below(40));
    arguments.step.struct_size = sizeof arguments.step;
    arguments.report.finite = -1;
    std::memcpy(&arguments_before, &arguments, sizeof arguments);
    const bool is_verb = one_in(2);
    if (!is_verb)
      arguments.report.struct_size = arguments_before.report.struct_size = sizeof arguments.report;
    const headroom_status status = is_verb ? call_verb() : sequence.call();
    REQUIRE((status >= HEADROOM_OK && status <= HEADROOM_RUNTIME_ERROR));
    if (status == HEADROOM_OK) continue;
    REQUIRE(std::memcmp(&arguments, &arguments_before, sizeof arguments) == 0);
    REQUIRE(std::strncmp(headroom_last_error(), "headroom: ", 10) == 0);
  }
}

}  // namespace

TEST_CASE("C: random sequences of calls") {
  const char* const count = std::getenv("HEADROOM_FUZZ_SEQUENCES");
  for (std::size_t i = count == nullptr ? 20'000 : std::stoul(count); i > 0; --i) run_sequence();
}
