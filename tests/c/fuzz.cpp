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

#include "support/c.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

// Random sequences of calls, with random wrong arguments. A failed call must write nothing. What a scaler does must follow a
// simple model.

namespace {

std::mt19937_64 generator(support::seed);
std::size_t below(std::size_t n) { return generator() % n; }
bool one_in(std::size_t n) { return below(n) == 0; }

/// Everything that calls may write. Tensors lie anywhere in `memory`.
struct World {
  alignas(8) unsigned char memory[4096];
  headroom_report report;
  headroom_step step;
  double scaled;
  char text[500];
  std::size_t size;
} world, before;

// ---- verbs ----

constexpr headroom_dtype dtypes[] = {HEADROOM_FLOAT32,
                                     HEADROOM_FLOAT16,
                                     HEADROOM_FLOAT64,
                                     HEADROOM_BFLOAT16,
                                     HEADROOM_FLOAT8_E4M3FN,
                                     HEADROOM_FLOAT8_E5M2,
                                     32,
                                     6 << 8 | 8,
                                     3 << 8 | 64,
                                     HEADROOM_FLOAT16 + 1,
                                     0xFFFFFFFF};
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
      if (same_shapes) to[i] = {to[i].data, from[i].size, to[i].dtype, from[i].ndim, from[i].shape, nullptr};
      if (one_in(6)) to[i] = from[i];
    }
  }

 private:
  /// Its elements are in `memory`: at most 8 x 8 x 8 of them, 8 bytes each, from 512 on, in steps of up to 4 in both
  /// directions.
  static headroom_tensor random_tensor(int64_t (&numbers)[2][3], headroom_dtype dtype) {
    for (int64_t& length : numbers[0]) length = one_in(20) ? -3 : static_cast<int64_t>(below(5));
    for (int64_t& stride : numbers[1]) stride = static_cast<int64_t>(below(9)) - 4;
    headroom_tensor tensor{world.memory + 512 + below(2000), below(40), dtype, 0, nullptr, nullptr};
    if (one_in(20)) tensor.data = nullptr;
    if (one_in(2)) return tensor;
    tensor.ndim = one_in(20) ? -1 - static_cast<int32_t>(below(100)) : static_cast<int32_t>(below(4));
    tensor.shape = one_in(30) ? nullptr : numbers[0];
    tensor.strides = one_in(2) ? nullptr : numbers[1];
    if (tensor.ndim > 0 && !one_in(10)) tensor.size = 0;
    return tensor;
  }
};

headroom_status call_verb() {
  const Arguments a;
  const auto *const from = one_in(30) ? nullptr : a.from, *const to = one_in(30) ? nullptr : a.to;
  headroom_report* const report = one_in(4) ? nullptr : &world.report;
  if (one_in(2)) return support::verbs_in_place[below(6)](from, a.n, a.threads, report);
  return support::verbs_into[below(6)](from, to, a.n, a.threads, report);
}

// ---- a scaler ----

/// What a scaler should do. Optimizer 0 has one float tensor, 1 has a bfloat16 and an integer tensor, 2 has no gradients, and 3
/// has fp16 gradients, for step_into.
struct Model {
  struct Optimizer {
    bool is_unscaled = false, is_stepped = false, is_finite = true, reducer_failed = false;
    int32_t reason = HEADROOM_STEP_TAKEN;
  };
  enum Reducer { none, agrees, overflows, fails };

  headroom::DynamicLossScale policy = headroom::presets::torch();
  float iteration_scale = 0.0F;
  bool has_scaled = false, needs_scale = false, is_abandoned = false;
  int reducer = none;
  std::map<std::size_t, Optimizer> optimizers;

  [[nodiscard]] float scale() const { return iteration_scale > 0.0F ? iteration_scale : policy.loss_scale(); }
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
    if (is_known && (found->second.is_stepped || (unscales && found->second.is_unscaled))) return HEADROOM_LOGIC_ERROR;
    if (is_known && unscales && !steps && found->second.reducer_failed) return HEADROOM_LOGIC_ERROR;
    if (!is_known) {
      if (needs_scale && !has_scaled && id != 2) return HEADROOM_LOGIC_ERROR;
      Optimizer& made = optimizers[id];
      made.is_finite = is_finite && reducer != overflows && reducer != fails;
      made.reason = !made.is_finite              ? HEADROOM_STEP_NOT_FINITE
                    : id == 2 && reducer == none ? HEADROOM_STEP_NO_GRADIENTS
                                                 : HEADROOM_STEP_TAKEN;
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
      has_gradients = has_gradients || optimizer.reason != HEADROOM_STEP_NO_GRADIENTS;
      is_finite = is_finite && optimizer.is_finite;
    }
    if (has_gradients) policy = policy.adjust(is_finite);
    end_iteration(false);
    return HEADROOM_OK;
  }
};

headroom_status reduce(void* model, int32_t* finite, double*, double*, uint64_t) {
  const int reducer = static_cast<Model*>(model)->reducer;
  if (reducer == Model::overflows) *finite = 0;
  return reducer == Model::fails ? 9 : HEADROOM_OK;
}

struct Sequence {
  headroom_grad_scaler* scaler = nullptr;
  Model model;
  float fp32[3];
  uint16_t bf16[3], fp16[3];
  int32_t integers[3] = {};
  float to[3];

  Sequence() {
    REQUIRE(headroom_grad_scaler_make(nullptr, &scaler) == HEADROOM_OK);
    write_gradients();
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() { headroom_grad_scaler_free(scaler); }

  void write_gradients() {
    for (std::size_t i = 0; i < 3; ++i) {
      fp32[i] = one_in(12) ? INFINITY : 3.0F;
      bf16[i] = one_in(12) ? 0x7FC0 : 0x4040;
      fp16[i] = one_in(12) ? 0xFC00 : 0x4200;
    }
  }
  [[nodiscard]] bool is_finite(std::size_t id) const {
    bool finite = true;
    for (std::size_t i = 0; i < 3; ++i) {
      finite =
          finite && (id != 0 || std::isfinite(fp32[i])) && (id != 1 || bf16[i] != 0x7FC0) && (id != 3 || fp16[i] != 0xFC00);
    }
    return finite;
  }
  /// Calls the scaler and checks its status and results against the model.
  headroom_status call() {
    const std::size_t id = below(4);
    const headroom_tensor lists[4][2] = {
        {{fp32, 3, HEADROOM_FLOAT32, 0, nullptr, nullptr}, {}},
        {{integers, 3, 32, 0, nullptr, nullptr}, {bf16, 3, HEADROOM_BFLOAT16, 0, nullptr, nullptr}},
        {},
        {{fp16, 3, HEADROOM_FLOAT16, 0, nullptr, nullptr}, {}}};
    const headroom_tensor destination{to, 3, HEADROOM_FLOAT32, 0, nullptr, nullptr};
    const std::size_t sizes[] = {1, 2, 0, 1};
    const headroom_tensor* const grads = lists[id];
    const bool is_wrong = one_in(12);  // a list of NULL
    headroom_status status = HEADROOM_OK, expected = HEADROOM_INVALID_ARGUMENT;
    switch (below(9)) {
      case 0:
        status = headroom_grad_scaler_scale(scaler, 1.0, is_wrong ? nullptr : &world.scaled);
        if (is_wrong) break;
        expected = HEADROOM_OK;
        model.iteration_scale = model.scale();
        model.has_scaled = true;
        model.is_abandoned = false;
        REQUIRE(static_cast<float>(world.scaled) == model.scale());
        break;
      case 1:
      case 2: {
        const bool clips = one_in(2), finite = is_finite(id);
        headroom_report* const report = &world.report;
        const headroom_tensor* const list = is_wrong ? nullptr : grads;
        const std::size_t n = is_wrong ? 2 : sizes[id];
        status = clips ? headroom_grad_scaler_unscale_and_clip(scaler, id, list, n, 2.0, report)
                       : headroom_grad_scaler_unscale(scaler, id, list, n, report);
        if (!is_wrong && id != 3) expected = model.call(id, finite, true, false);
        if (status == HEADROOM_OK) REQUIRE((report->finite == 1) == model.optimizers[id].is_finite);
        break;
      }
      case 3:
      case 4:
      case 5: {
        const bool finite = is_finite(id);
        if (id == 3) {
          status = headroom_grad_scaler_step_into(scaler, id, grads, is_wrong ? nullptr : &destination, 1, &world.step);
        } else {
          status = headroom_grad_scaler_step(scaler, id, is_wrong ? nullptr : grads, is_wrong ? 1 : sizes[id], &world.step);
        }
        if (!is_wrong) expected = model.call(id, finite, id == 3, true);
        if (status != HEADROOM_OK) break;
        REQUIRE(world.step.reason == model.optimizers[id].reason);
        REQUIRE(world.step.skipped == (world.step.reason != HEADROOM_STEP_TAKEN));
        break;
      }
      case 6:
        status = headroom_grad_scaler_update(is_wrong ? nullptr : scaler);
        if (is_wrong) break;
        expected = model.update();
        if (expected == HEADROOM_OK) write_gradients();
        break;
      case 7:
        if (one_in(4)) {  // between iterations
          if (!model.optimizers.empty()) return HEADROOM_OK;
          model.reducer = static_cast<int>(below(4));
          expected = HEADROOM_OK;
          status = headroom_grad_scaler_set_reducer(scaler, model.reducer == Model::none ? nullptr : reduce, &model);
          break;
        }
        status = headroom_grad_scaler_abandon(is_wrong ? nullptr : scaler);
        if (is_wrong) break;
        expected = HEADROOM_OK;
        model.end_iteration(true);
        write_gradients();
        break;
      default:
        world.size = is_wrong ? below(100) : sizeof world.text;
        before.size = world.size;
        status = headroom_grad_scaler_save(scaler, world.text, &world.size);
        if (is_wrong) break;
        REQUIRE(status == HEADROOM_OK);
        if (one_in(4)) world.text[below(20)] = '=';
        status = headroom_grad_scaler_load(scaler, world.text);
        expected = std::strncmp(world.text, "version = 2\npolicy =", 20) == 0 ? HEADROOM_OK : HEADROOM_INVALID_ARGUMENT;
        if (expected == HEADROOM_OK) model.end_iteration(model.is_abandoned || !model.optimizers.empty());
        if (expected == HEADROOM_OK) write_gradients();
        std::memcpy(&world, &before, sizeof world);  // it has saved
    }
    REQUIRE(status == expected);
    return status;
  }
};

}  // namespace

TEST_CASE("C: random sequences of calls") {
  const char* const count = std::getenv("HEADROOM_FUZZ_SEQUENCES");
  for (std::size_t i = count == nullptr ? 20'000 : std::stoul(count); i > 0; --i) {
    for (unsigned char& byte : world.memory) byte = static_cast<unsigned char>(generator());
    Sequence sequence;
    for (std::size_t calls = below(24); calls > 0; --calls) {
      world.report.struct_size = one_in(30) ? static_cast<uint32_t>(below(4)) : static_cast<uint32_t>(4 + below(40));
      world.step.struct_size = sizeof world.step;
      world.report.finite = -1;
      std::memcpy(&before, &world, sizeof world);
      const bool is_verb = one_in(2);
      if (!is_verb) world.report.struct_size = before.report.struct_size = sizeof world.report;
      const headroom_status status = is_verb ? call_verb() : sequence.call();
      REQUIRE((status >= HEADROOM_OK && status <= HEADROOM_RUNTIME_ERROR));
      if (status == HEADROOM_OK) continue;
      REQUIRE(std::memcmp(&world, &before, sizeof world) == 0);
      REQUIRE(std::strncmp(headroom_last_error(), "headroom: ", 10) == 0);
    }
  }
}
