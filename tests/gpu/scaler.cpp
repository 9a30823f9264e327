// The kernels run on the CPU: gpu/shim. gpu/check.cpp compares bits, follows policies through
// overflows, and captures graphs.
#include <headroom/gpu.hpp>
#include <headroom/headroom.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

using namespace headroom;
using Scaler = gpu::Scaler<>;
const cudaStream_t stream = nullptr;

/// Of a scale of 1024, which halves after an overflow.
Scaler make(int growth_interval = 3) {
  return Scaler(DynamicLossScale({1024.0F, growth_interval}));
}
/// What f launches.
template <class F>
unsigned launches_of(F f) {
  const unsigned before = shim::launches;
  f();
  return shim::launches - before;
}

// Numbers whose sums and roots are exact.
struct Lists {
  std::vector<float> a = {0.0F, -3.0F * 1024.0F}, b = {4.0F * 1024.0F}, c = {12.0F * 1024.0F};
  gpu::Gradients of_a{{{a.data(), a.size()}}}, of_b{{{b.data(), b.size()}}},
      of_c{{{c.data(), c.size()}}};
};

}  // namespace

using support::logic_error_of;

TEST_CASE("gpu: several lists of one step have one report; each verb is one launch") {
  Lists lists;
  Scaler scaler = make();
  CHECK(launches_of([&] { scaler.measure(lists.of_a, stream); }) == 1);
  CHECK(launches_of([&] { scaler.measure(lists.of_b, stream); }) == 2);
  CHECK(launches_of([&] { scaler.unscale(lists.of_c, stream); }) == 1);
  CHECK(launches_of([&] { scaler.measure(lists.of_c, stream); }) == 2);
  CHECK(launches_of([&] { scaler.update(stream, 6.5); }) == 1);
  const auto report = scaler.read(stream).report;
  CHECK(report.finite);
  CHECK(report.max_abs == 12.0);
  CHECK(report.norm == 13.0);
  CHECK(scaler.step()->clip == 0.5);
  CHECK(scaler.step()->factor == 0.5 / 1024.0);

  // The next step starts anew
  CHECK(launches_of([&] { scaler.unscale(lists.of_a, stream); }) == 1);
  scaler.measure(lists.of_b, stream);
  scaler.update(stream, 100.0);
  CHECK(scaler.read(stream).report.max_abs == 4.0);
  CHECK(scaler.read(stream).report.norm == 4.0);  // of what was measured
  CHECK(lists.a[1] == -3.0F);
  CHECK(scaler.step()->clip == 1.0);

  lists.a[1] = 3.0F * 1024.0F;  // of the next backward
  scaler.unscale(lists.of_b, stream);
  for (const auto* list : {&lists.of_a, &lists.of_b}) scaler.measure(*list, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 5.0);
}

TEST_CASE("gpu: measure reads what this step has unscaled, if anything") {
  std::vector<__half> halves = {__float2half(3.0F * 1024.0F), __float2half(4.0F * 1024.0F)};
  std::vector<float> floats(2), in_place = {12.0F * 1024.0F, 84.0F * 1024.0F};
  const gpu::Gradients gradients(
      {{halves.data(), 2, floats.data()}, {&in_place[0], 1}, {&in_place[1], 1, &in_place[1]}}),
      sums({{halves.data(), 2, floats.data()}});
  Scaler scaler = make(100);
  const auto norm = [&] { return scaler.update(stream, 100.0), scaler.read(stream).report.norm; };
  scaler.unscale(gradients, stream);
  scaler.measure(gradients, stream);
  CHECK(norm() == 85.0);
  CHECK(in_place == std::vector<float>{12.0F, 84.0F});
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) scaler.accumulate(sums, stream);
  scaler.measure(sums, stream);
  CHECK(norm() == 15.0);
  scaler.unscale(sums, stream);  // instead of zeros for the first micro-batch
  scaler.accumulate(sums, stream);
  scaler.measure(sums, stream);
  CHECK(norm() == 10.0);
  scaler.measure(sums, stream);
  CHECK(norm() == 5.0);
  scaler.measure(sums, stream);
  scaler.accumulate(sums, stream);  // after it
  CHECK(norm() == 5.0);
}

namespace {
const std::string way_out = "; call update to end that step, or abandon to give it up";
}  // namespace
TEST_CASE("gpu: a list is unscaled once and measured once in a step, of one scaler") {
  std::vector<float> own = {3.0F * 1024.0F}, source = {4.0F * 1024.0F}, sum(1);
  gpu::Gradients in_place({{own.data(), 1}});
  const gpu::Gradients into({{source.data(), 1, sum.data()}});
  Scaler scaler = make(100);
  const auto refused = [&](const char* verb, const char* what, auto call) {
    const std::string expected =
        "headroom: " + std::string(verb) + ": these gradients were " + what + way_out;
    CHECK(launches_of([&] { CHECK(logic_error_of(call) == expected); }) == 0);
  };
  const auto unscale = [&] { scaler.unscale(in_place, stream); };
  const auto measure = [&] { scaler.measure(in_place, stream); };
  unscale();
  refused("unscale", "unscaled in this step", unscale);
  gpu::Gradients moved = std::move(in_place);
  in_place = std::move(moved);
  refused("unscale", "unscaled in this step", unscale);
  measure();
  refused("measure", "measured in this step", measure);
  scaler.accumulate(into, stream);
  refused("unscale", "unscaled in this step", [&] { scaler.unscale(into, stream); });
  scaler.measure(into, stream);
  refused("accumulate", "unscaled and measured in this step",
          [&] { scaler.accumulate(into, stream); });
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 5.0);
  measure();
  unscale();
  refused("measure", "measured in this step", measure);

  {
    Scaler other = make();
    const auto measure_there = [&] { other.measure(in_place, stream); };
    refused("measure", "used in a step of another Scaler", measure_there);
    refused("unscale", "used in a step of another Scaler",
            [&] { other.unscale(in_place, stream); });
    scaler.update(stream);
    other.unscale(in_place, stream);
    refused("measure", "used in a step of another Scaler", measure);
    Scaler third = std::move(other);
    refused("measure", "used in a step of another Scaler", measure);
    third.measure(in_place, stream);
  }
  own[0] = 3.0F * 1024.0F;
  measure();  // the other one is gone
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 3.0);
  shim::next_error = cudaErrorInvalidValue;
  shim::calls_before_error = 0;
  CHECK_THROWS_AS(measure(), std::runtime_error);
  measure();  // the failed call counts as none
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 3.0);
}

TEST_CASE("gpu: a step that is given up leaves nothing behind, in a graph or not") {
  std::vector<float> a = {3.0F * 1024.0F}, b = {4.0F * 1024.0F};
  const gpu::Gradients of_a({{a.data(), 1}}), of_b({{b.data(), 1}});
  Scaler scaler = make();
  cudaGraph_t graph{};
  const auto begin = [&] { cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); };
  for (const bool is_captured : {true, false}) {
    if (is_captured) begin();
    scaler.measure(of_a, stream);
    scaler.measure(of_b, stream);  // adds the first sums up
    if (is_captured) cudaStreamEndCapture(stream, &graph), cudaGraphDestroy(graph);
    if (!is_captured) *scaler.inf_elsewhere() = 1.0F;
    CHECK(logic_error_of([&] { scaler.measure(of_a, stream); }) ==
          "headroom: measure: these gradients were measured in this step" + way_out);
    CHECK(launches_of([&] { scaler.abandon(stream); }) == 0);
    CHECK_FALSE(logic_error_of([&] { scaler.update(stream); }).empty());
    b[0] = is_captured ? 4.0F * 1024.0F : 0.5F * 1024.0F;
    begin();
    scaler.measure(is_captured ? of_a : of_b, stream);
    scaler.update(stream, 1.0);
    cudaStreamEndCapture(stream, &graph);
    for (int replay = 0; replay < 3; ++replay) {
      cudaGraphLaunch(graph, stream);
      const auto last = scaler.read(stream);
      CHECK((!last.skipped && last.report.norm == last.report.max_abs));
      CHECK(last.report.norm * static_cast<double>(last.loss_scale) ==
            (is_captured ? 3072.0 : 512.0));
    }
    cudaGraphDestroy(graph);
  }
  shim::next_error = cudaErrorInvalidValue;
  shim::calls_before_error = 0;
  const gpu::Gradients nothing;
  scaler.measure(nothing, stream);
  CHECK_THROWS_AS(scaler.abandon(stream), std::runtime_error);
  scaler.update(stream);  // the step goes on
}

namespace {
/// The CPU's numbers of a LossScale of a fixed scale. `use` has a list's verbs in the step of its
/// `user`, in order.
struct OnCpu {
  struct List {
    std::vector<half> halves;  // none: the floats are scaled gradients
    std::vector<float> floats;
    std::string use;
    int user = -1;

    [[nodiscard]] GradientNorm measured(float scale) const {
      const bool is_unscaled = use.find_first_of("ua") != std::string::npos;
      if (is_unscaled || halves.empty())
        return detail::unscaled(measure(floats), is_unscaled ? 1.0 : static_cast<double>(scale));
      return detail::unscaled(measure(halves), static_cast<double>(scale));
    }
    [[nodiscard]] bool is_legal(char verb, int scaler) const {
      if (!use.empty() && user != scaler) return false;
      if (verb == 'm') return use.find('m') == std::string::npos;
      const auto written = use.find_first_of("ua");
      return written == std::string::npos || (verb == 'a' && use.find('m') == std::string::npos);
    }
    GradientReport run(char verb, float scale) {
      if (verb == 'a') return accumulate_into(halves, floats, scale);
      return halves.empty() ? unscale_in_place(floats, scale) : unscale_into(halves, floats, scale);
    }
  };
  double max_abs = 0.0, squares = 0.0;
  bool is_begun = false;
};
}  // namespace
TEST_CASE(
    "gpu: random calls of two scalers with two lists are refused, or have the CPU's numbers") {
  std::mt19937 random(5);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  int taken = 0, refused = 0;
  for (int run = 0; run < 60; ++run) {
    const float scales[] = {1024.0F, 1000.0F};
    gpu::Scaler<ConstantLossScale> scalers[] = {
        gpu::Scaler<ConstantLossScale>(ConstantLossScale(scales[0])),
        gpu::Scaler<ConstantLossScale>(ConstantLossScale(scales[1]))};
    OnCpu cpu[2];
    OnCpu::List here[2];
    here[0].floats.resize(700);
    here[1].floats.resize(90);
    here[1].halves.resize(90);
    std::vector<float> in_place(700), sums(90);
    std::vector<half> halves(90);
    gpu::Gradients lists[] = {gpu::Gradients({{in_place.data(), 700}}),
                              gpu::Gradients({{halves.data(), 90, sums.data()}})};
    for (int call = 0; call < 60; ++call) {
      const int s = below(2), l = below(2);
      const char verb = "uammuamUAb"[below(10)];
      OnCpu& model = cpu[s];
      OnCpu::List& list = here[l];
      const auto end_step = [&] {
        model = OnCpu();
        for (OnCpu::List& its : here)
          if (its.user == s) its.use.clear();
      };
      if (verb == 'b') {  // a backward
        for (float& x : list.floats)
          if (l == 0) x = static_cast<float>(below(60000) - 30000);
        for (half& x : list.halves) x = half(static_cast<float>(below(60000) - 30000));
        if (l == 0) in_place = list.floats;
        halves = here[1].halves;
        gpu::Gradients moved = std::move(lists[l]);
        lists[l] = std::move(moved);
      } else if (verb == 'A') {
        scalers[s].abandon(stream);
        end_step();
      } else if (verb == 'U') {
        const bool is_refused = !logic_error_of([&] { scalers[s].update(stream); }).empty();
        REQUIRE(is_refused == !model.is_begun);
        if (is_refused) continue;
        const auto report = scalers[s].read(stream).report;
        REQUIRE((report.finite && report.max_abs == model.max_abs));
        REQUIRE(std::fabs(report.norm - std::sqrt(model.squares)) <= 1e-12 * report.norm);
        end_step();
      } else {
        const bool has_destination = l == 1;
        const bool is_refused = !logic_error_of([&] {
                                   if (verb == 'm') scalers[s].measure(lists[l], stream);
                                   if (verb == 'u') scalers[s].unscale(lists[l], stream);
                                   if (verb == 'a') scalers[s].accumulate(lists[l], stream);
                                 }).empty();
        REQUIRE(is_refused == !(list.is_legal(verb, s) && (has_destination || verb != 'a')));
        ++(is_refused ? refused : taken);
        if (is_refused) continue;
        const GradientNorm norm = list.measured(scales[s]);
        const GradientReport report =
            verb == 'm' ? GradientReport(norm) : list.run(verb, scales[s]);
        model.max_abs = std::max(model.max_abs, report.max_abs);
        if (verb == 'm') model.squares += norm.norm * norm.norm;
        model.is_begun = true;
        list.use += verb;
        list.user = s;
      }
      REQUIRE((in_place == here[0].floats && sums == here[1].floats));
    }
  }
  CHECK((taken > 500 && refused > 500));
}

TEST_CASE("gpu: what no kernel can use, or two would write, is refused by its name") {
  alignas(8) float values[8] = {};
  const auto message = [&](const std::vector<gpu::Gradient>& list) {
    return MESSAGE_OF(gpu::Gradients{list});
  };
  const std::string overlap = " overlap; list each tensor once, with its own destination";
  CHECK(message({{values, 2}, {values + 4, 2}, {values, 2}}) ==
        "headroom: gradients[0].data and gradients[2].data" + overlap);
  CHECK(message({{values + 4, 3}, {values, 5}}) ==
        "headroom: gradients[0].data and gradients[1].data" + overlap);
  CHECK(message({{values, 1}, {values + 4, 1}, {values + 2, 1, values + 4}}) ==
        "headroom: gradients[1].data and gradients[2].destination" + overlap);
  const auto halves = reinterpret_cast<__half*>(values);
  CHECK(message({{halves, 4, values}}) ==
        "headroom: gradients[0].data and gradients[0].destination" + overlap);
  CHECK(message({{values, 4, values}, {values + 4, 2, values + 6}, {values, 0}}).empty());
  CHECK(message({{values, 1}, {static_cast<double*>(nullptr), 5}}) ==
        "headroom: gradients[1].data is null");
  CHECK(message({{halves, 1, reinterpret_cast<float*>(halves + 3)}}) ==
        "headroom: gradients[0].destination is not aligned to the size of its elements");

  shim::strange = values + 2;
  for (const cudaPointerAttributes memory : {cudaPointerAttributes{cudaMemoryTypeUnregistered, -1},
                                             cudaPointerAttributes{cudaMemoryTypeDevice, 1}}) {
    shim::strange_memory = memory;
    CHECK(message({{values, 1}, {values + 2, 1}}) ==
          "headroom: gradients[1].data is memory that device 0 cannot access: of the host and not "
          "registered, or of another device");
    shim::can_access = 1;
    CHECK(message({{values, 1}, {values + 2, 1}}).empty());
    shim::can_access = 0;
  }
  shim::strange_memory = {cudaMemoryTypeHost, 1};
  CHECK(message({{values + 2, 1}}).empty());
  shim::strange = nullptr;
  shim::strange_memory = {};
}

TEST_CASE("gpu: assign gives a list other addresses, in the order of the stream") {
  std::mt19937 random(9);
  const auto filled = [&](std::size_t n) {
    std::vector<half> values(n);
    for (half& x : values) x = half(static_cast<float>(random() % 4096));
    return values;
  };
  const std::vector<std::size_t> sizes = {70000, 3, 0, 65536, 65537, 700, 1};
  std::vector<std::vector<half>> before, after;
  std::vector<std::vector<float>> sums;
  std::vector<gpu::Gradient> old_list, new_list;
  for (int i = 0; i < 170; ++i) {  // more than one kernel moves
    const std::size_t n = i < 7 ? sizes[static_cast<std::size_t>(i)] : 1;
    before.push_back(filled(n));
    after.push_back(filled(n));
    sums.emplace_back(n);
    float* const sum = i % 2 == 0 ? nullptr : sums.back().data();
    old_list.emplace_back(before.back().data(), n, dtype_code::fp16, sum);
    new_list.emplace_back(after.back().data(), n, dtype_code::fp16, sum);
  }
  gpu::Gradients list(old_list);
  Scaler scaler = make();
  cudaGraph_t graph{};
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  scaler.measure(list, stream);
  scaler.update(stream);
  cudaStreamEndCapture(stream, &graph);
  const auto norm = [&](const std::vector<std::vector<half>>& values) {
    cudaGraphLaunch(graph, stream);
    const auto last = scaler.read(stream);
    return last.report.norm == measure(values).norm / static_cast<double>(last.loss_scale);
  };
  CHECK(norm(before));
  CHECK(launches_of([&] { list.assign(new_list, stream); }) == 2);
  CHECK(norm(after));
  list.assign(old_list, stream);
  CHECK(norm(before));

  const auto message = [&](auto change) {
    std::vector<gpu::Gradient> bad = new_list;
    change(bad);
    std::string text;
    CHECK(launches_of([&] { text = MESSAGE_OF(list.assign(bad, stream)); }) == 0);
    return text;
  };
  CHECK(message([](auto& bad) { bad.pop_back(); }) ==
        "headroom: assign: 169 gradients, but the list has 170");
  CHECK(message([](auto& bad) { bad[1].size = 2; }) ==
        "headroom: assign: gradients[1] has 2 elements, not 3");
  CHECK(message([](auto& bad) { bad[3].dtype = dtype_code::bf16; }) ==
        "headroom: assign: gradients[3] has another dtype");
  CHECK(message([](auto& bad) { bad[1].destination = nullptr; }) ==
        "headroom: assign: gradients[1] has lost its destination");
  CHECK(message([](auto& bad) { bad[5].data = bad[4].data; }) ==
        "headroom: gradients[4].data and gradients[5].data overlap; list each tensor once, with "
        "its own destination");
  CHECK(norm(before));
  cudaGraphDestroy(graph);
}

TEST_CASE("gpu: assign between the micro-batches of a step; not after measure, nor of results") {
  std::vector<half> first(5, half(1024.0F)), second(5, half(2048.0F));
  std::vector<float> sums(5), others(5);
  gpu::Gradients list({{first.data(), 5, dtype_code::fp16, sums.data()}});
  const std::vector<gpu::Gradient> next = {{second.data(), 5, dtype_code::fp16, sums.data()}};
  Scaler scaler = make();
  scaler.accumulate(list, stream);
  list.assign(next, stream);
  scaler.accumulate(list, stream);
  CHECK(sums[0] == 3.0F);
  CHECK(logic_error_of([&] {
          list.assign({{first.data(), 5, dtype_code::fp16, others.data()}}, stream);
        }) ==
        "headroom: assign: these gradients were unscaled to other addresses in this step; "
        "call update to end that step, or abandon to give it up");
  scaler.measure(list, stream);
  CHECK(logic_error_of([&] { list.assign(next, stream); }) ==
        "headroom: assign: these gradients were measured in this step; call update to end that "
        "step, or abandon to give it up");
  scaler.update(stream);
  list.assign({{first.data(), 5, dtype_code::fp16, others.data()}}, stream);
  scaler.unscale(list, stream);
  CHECK(others[4] == 1.0F);
  scaler.abandon(stream);
  list.assign(next, stream);
  shim::next_error = cudaErrorInvalidValue;
  shim::calls_before_error = 0;
  CHECK_THROWS_AS(list.assign(next, stream), std::runtime_error);
  shim::device = 1;
  CHECK_FALSE(logic_error_of([&] { list.assign(next, stream); }).empty());
  shim::device = 0;
}

TEST_CASE("gpu: a snapshot names the first gradient that overflowed") {
  constexpr std::size_t n = 9;
  const std::size_t sizes[n] = {5, 70000, 0, 513, 131072, 1, 1, 600, 2};
  const float inf = std::numeric_limits<float>::infinity();
  std::mt19937 random(4);
  for (int run = 0; run < 60; ++run) {
    std::vector<std::vector<float>> floats, sums;
    std::vector<std::vector<half>> halves;
    std::vector<gpu::Gradient> list;
    const bool adds = run % 3 == 2;
    for (std::size_t i = 0; i < n; ++i) {
      floats.emplace_back(sizes[i] + 1, 1.0F);
      halves.emplace_back(sizes[i] + 1, half(1.0F));
      sums.emplace_back(sizes[i] + 1, 1.0F);
      const std::size_t shift = random() % 2;
      if (random() % 2 == 0 && !adds)
        list.emplace_back(floats[i].data() + shift, sizes[i]);
      else
        list.emplace_back(halves[i].data() + shift, sizes[i], dtype_code::fp16,
                          sums[i].data() + shift);
    }
    long long expected = -1;
    for (int bad = static_cast<int>(random() % 3); bad > 0; --bad) {
      const std::size_t i = random() % n;
      if (sizes[i] == 0) continue;
      const std::size_t at = random() % sizes[i];
      if (list[i].dtype == dtype_code::fp16) static_cast<half*>(list[i].data)[at] = half(inf);
      if (list[i].dtype == dtype_code::fp32) static_cast<float*>(list[i].data)[at] = std::nanf("");
      expected = expected < 0 || static_cast<long long>(i) < expected ? static_cast<long long>(i)
                                                                      : expected;
    }
    const gpu::Gradients other({{floats[2].data(), 1}}), gradients(list);
    gpu::Scaler<ConstantLossScale> scaler(ConstantLossScale(run % 2 == 0 ? 1024.0F : 1000.0F));
    const bool is_second = run % 4 == 3;  // list of the step
    if (is_second) scaler.measure(other, stream);
    if (run % 3 == 0) scaler.measure(gradients, stream);
    if (run % 3 == 1) scaler.unscale(gradients, stream);
    if (adds) scaler.accumulate(gradients, stream);
    scaler.update(stream);
    const auto last = scaler.read(stream);
    REQUIRE(last.skipped == (expected >= 0));
    REQUIRE(last.first_overflow == (expected >= 0 && is_second ? expected + 1 : expected));
  }
  Lists lists;
  Scaler scaler = make();
  lists.a[0] = inf;
  scaler.measure(lists.of_a, stream);
  scaler.abandon(stream);
  scaler.measure(lists.of_b, stream);
  *scaler.inf_elsewhere() = 1.0F;
  scaler.update(stream);
  CHECK((scaler.read(stream).skipped && scaler.read(stream).first_overflow == -1));
}

TEST_CASE("gpu: lists and scalers are used with their device") {
  Lists lists;
  Scaler scaler = make();
  shim::device = 1;
  const gpu::Gradients there;
  const auto message = [](const std::string& verb) {
    return "headroom: " + verb +
           ": this object is of device 0, but device 1 is current; call cudaSetDevice";
  };
  CHECK(logic_error_of([&] { scaler.measure(lists.of_a, stream); }) == message("measure"));
  CHECK(logic_error_of([&] { scaler.total(stream); }) == message("total"));
  CHECK(logic_error_of([&] { scaler.update(stream); }) == message("update"));
  CHECK(logic_error_of([&] { scaler.abandon(stream); }) == message("abandon"));
  shim::device = 0;
  CHECK(logic_error_of([&] { scaler.unscale(there, stream); }) ==
        "headroom: unscale: the list is of device 1, but device 0 is current; call cudaSetDevice");
}

TEST_CASE("gpu: constructors load all kernels") {
  shim::loaded.clear();
  Lists lists;
  std::vector<float> sum(1);
  const gpu::Gradients into({{lists.c.data(), 1, sum.data()}});
  Scaler scaler = make();
  shim::late_loads = 0;
  scaler.measure(lists.of_a, stream);
  scaler.measure(lists.of_b, stream);
  scaler.unscale(lists.of_a, stream);
  scaler.accumulate(into, stream);
  scaler.update(stream);
  CHECK(shim::late_loads == 0);
}

TEST_CASE("gpu: a double whose square overflows is finite, unless the step clips") {
  std::vector<double> values = {1e200, 1.0};
  const gpu::Gradients list({{values.data(), 2}});
  for (const double max_norm : {HUGE_VAL, 1.0}) {
    Scaler scaler = make();
    scaler.measure(list, stream);
    scaler.update(stream, max_norm);
    const bool clips = max_norm < HUGE_VAL;
    const auto last = scaler.read(stream);
    CHECK((last.report.finite == !clips && last.report.norm == HUGE_VAL && last.skipped == clips));
    std::vector<double> on_cpu = values;
    CHECK(last.report.finite == (clips ? unscale_and_clip_in_place(on_cpu, 1024.0F, max_norm).finite
                                       : measure(values).finite));
    CHECK(last.report.max_abs == (clips ? HUGE_VAL : 1e200 / 1024.0));
    CHECK(scaler.step()->clip == 1.0);
  }
}

TEST_CASE("gpu: ranks send the bits of Inf for a NaN") {
  std::vector<float> values = {1.0F, std::nanf("")};
  const gpu::Gradients list({{values.data(), 2}});
  Scaler scaler = make();
  scaler.measure(list, stream);
  scaler.total(stream);
  CHECK(*scaler.max_abs() == binary64::infinity_bits);
}

template <class List>
using measure_t = decltype(std::declval<Scaler&>().measure(std::declval<List>(), cudaStream_t{}));
template <class List>
using unscale_t = decltype(std::declval<Scaler&>().unscale(std::declval<List>(), cudaStream_t{}));
template <class List>
using accumulate_t =
    decltype(std::declval<Scaler&>().accumulate(std::declval<List>(), cudaStream_t{}));
template <template <class> class Call>
constexpr bool takes_only_lasting_lists =
    headroom::detail::is_detected_v<Call, const gpu::Gradients&>&&
        headroom::detail::is_detected_v<Call, gpu::Gradients&> &&
    !headroom::detail::is_detected_v<Call, gpu::Gradients> &&
    !headroom::detail::is_detected_v<Call, const gpu::Gradients>;
static_assert(takes_only_lasting_lists<measure_t> && takes_only_lasting_lists<unscale_t> &&
              takes_only_lasting_lists<accumulate_t>);

TEST_CASE("gpu: mistakes are refused by messages") {
  Lists lists;
  Scaler scaler = make();
  std::vector<__half> halves(2);
  std::vector<float> floats(2);
  const gpu::Gradients in_place({{floats.data(), 2}, {halves.data(), 2}}),
      into({{halves.data(), 2, floats.data()}});
  CHECK(logic_error_of([&] { scaler.unscale(in_place, stream); }) ==
        "headroom: unscale: gradients[1] is fp16 without a destination, where most gradients would "
        "become 0");
  CHECK(logic_error_of([&] { scaler.accumulate(in_place, stream); }) ==
        "headroom: accumulate: gradients[0] has no destination");
  CHECK(logic_error_of([&] { scaler.update(stream); }) ==
        "headroom: update: no gradients were unscaled or measured since the last update");
  CHECK_FALSE(scaler.step()->taken);  // nothing steps before the first update
  CHECK(
      (*scaler.found_inf() == 1.0F && scaler.step()->factor == 0.0 && scaler.step()->clip == 0.0));
  CHECK(launches_of([&] { scaler.unscale<allow_fp16_gradients>(in_place, stream); }) == 1);
  CHECK(logic_error_of([&] { scaler.update(stream, 1.0); }) ==
        "headroom: update: max_norm is 1, but nothing was measured in this step");
  scaler.measure(into, stream);
  const std::string rest = "; it must be 0 or more (Inf: no clipping)";
  CHECK(MESSAGE_OF(scaler.update(stream, -1.0)) == "headroom: max_norm is -1" + rest);
  CHECK(MESSAGE_OF(scaler.update(stream, std::nan(""))) == "headroom: max_norm is nan" + rest);
  CHECK(MESSAGE_OF(scaler.total(stream, 0)) == "headroom: replicas is 0; it must be 1 or more");
  scaler.update(stream, 0.0);
  CHECK_FALSE(logic_error_of([&] { scaler.update(stream, 0.0); }).empty());  // a new step
  for (const dtype_code dtype : {dtype_code::fp8_e4m3, dtype_code::int32, dtype_code{}})
    CHECK(MESSAGE_OF(gpu::Gradients({{floats.data(), 1}, {floats.data(), 1, dtype}})) ==
          "headroom: gradients[1].dtype is none of fp16, bf16, fp32 and fp64");
}

TEST_CASE("gpu: snapshots are fetched without waiting, and set again") {
  Lists lists;
  Scaler scaler = make();
  CHECK_FALSE(scaler.poll());
  shim::is_late = true;
  scaler.fetch(stream);
  scaler.measure(lists.of_a, stream);
  scaler.update(stream);
  CHECK_FALSE(scaler.poll());
  scaler.fetch(stream);  // one is under way
  CHECK(cudaGetLastError() == cudaSuccess);
  shim::last_error = cudaErrorInvalidValue;  // of a launch of the caller's
  CHECK_FALSE(scaler.poll());
  CHECK(cudaGetLastError() != cudaSuccess);  // not swallowed
  shim::is_late = false;
  shim::last_error = cudaErrorInvalidValue;
  CHECK(scaler.poll());  // such an error does not hide a copy that has arrived
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  REQUIRE(scaler.poll());
  CHECK(scaler.poll()->steps == 0);
  shim::last_error = cudaErrorInvalidValue;
  CHECK(scaler.read(stream).steps == 1);  // copies anew
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  shim::is_late = true;
  scaler.measure(lists.of_a, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).steps == 2);  // waits for the copy under way, and makes another
  CHECK(scaler.poll()->steps == 2);

  scaler.measure(lists.of_a, stream);
  gpu::Snapshot<DynamicLossScale> snapshot{DynamicLossScale({8.0F, 2})};
  snapshot.steps = 20;
  snapshot.skips = 5;
  const float* const address = scaler.loss_scale();
  scaler.set(snapshot, stream);
  CHECK(*address == 8.0F);
  CHECK_FALSE(scaler.poll().has_value());  // which would be of before
  // What was measured before `set` is forgotten
  CHECK_FALSE(logic_error_of([&] { scaler.update(stream); }).empty());
  const gpu::Gradients nothing;
  scaler.measure(nothing, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 0.0);
  CHECK(scaler.step()->count == 16);
  CHECK(scaler.read(stream).policy == snapshot.policy.adjust(true));
  Scaler moved = std::move(scaler);
  CHECK(moved.loss_scale() == address);
  moved.measure(nothing, stream);
  *moved.sum_of_squares() = std::nan("");  // of another rank: a norm that is NaN is not finite
  moved.update(stream);
  CHECK_FALSE(moved.step()->taken);
  moved.measure(nothing, stream);
  moved.update(stream);
  CHECK(*address == 4.0F);
  scaler = std::move(moved);
  CHECK(scaler.read(stream).steps == 23);
}

TEST_CASE("gpu: the norm of small tensors that fill one group has the bits of the CPU's") {
  std::vector<std::vector<float>> tensors(600);
  std::vector<gpu::Gradient> list;
  float value = 1.0F;
  for (auto& tensor : tensors) {
    for (int i = 0; i < 3; ++i) tensor.push_back(value += 0.37F);
    list.emplace_back(tensor.data(), tensor.size());
  }
  const gpu::Gradients gradients(list);
  gpu::Scaler scaler(ConstantLossScale(1.0F));
  scaler.measure(gradients, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == measure(tensors).norm);
}
TEST_CASE("gpu: an empty list is measured without a launch") {
  const gpu::Gradients nothing, other,
      empty({{static_cast<float*>(nullptr), 0}, {static_cast<__half*>(nullptr), 0}});
  Scaler scaler = make();
  CHECK(launches_of([&] { scaler.measure(nothing, stream), scaler.unscale(nothing, stream); }) ==
        0);
  scaler.accumulate(other, stream);
  scaler.accumulate(empty, stream);  // fp16, and floats without a destination
  scaler.measure(empty, stream);
  scaler.update(stream, 1.0);
  const auto report = scaler.read(stream).report;
  CHECK((report.finite && report.max_abs == 0.0 && report.norm == 0.0));
}

TEST_CASE("gpu: a failed call of CUDA is an exception that names it, and leaks nothing") {
  std::set<std::string> messages;
  std::vector<float> values(4);
  for (unsigned i = 0;; ++i) {
    shim::next_error = cudaErrorMemoryAllocation;
    shim::calls_before_error = i;
    try {
      gpu::Gradients gradients({{values.data(), 4}});
      gradients.assign({{values.data(), 4}}, stream);
      const gpu::Gradients into({{values.data(), 2, values.data() + 2}});
      Scaler scaler = make();
      scaler.measure(gradients, stream);
      scaler.total(stream);
      scaler.accumulate(into, stream);
      scaler.update(stream);
      scaler.abandon(stream);
      scaler.set({DynamicLossScale()}, stream);
      scaler.fetch(stream);
      (void)scaler.poll();
      (void)scaler.read(stream);
    } catch (const std::runtime_error& error) {
      messages.insert(error.what());
      CHECK(cudaGetLastError() == cudaSuccess);
    }
    CHECK(shim::allocations == 0);
    if (std::exchange(shim::next_error, cudaSuccess) != cudaSuccess) break;
  }
  std::set<std::string> expected;
  for (const char* call :
       {"cudaMalloc", "cudaMemcpy", "cudaStreamSynchronize", "cudaMallocHost",
        "cudaEventCreateWithFlags", "try_kernel", "measure_kernel", "total_kernel",
        "unscale_kernel", "update_kernel", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery",
        "cudaEventSynchronize", "cudaPointerGetAttributes", "cudaFuncGetAttributes",
        "cudaMemsetAsync", "assign_kernel"})
    expected.insert("headroom: " + std::string(call) + ": out of memory");
  CHECK(messages == expected);
}

namespace {
/// A policy whose device code differs from its host code.
struct Different {
  float scale = 8.0F;
  [[nodiscard]] float loss_scale() const { return scale; }
  [[nodiscard]] Different adjust(const GradientReport& report) const {
    return {gridDim.x == 0 ? scale + (report.finite ? 1.0F : 0.0F) : scale};
  }
};
}  // namespace
TEST_CASE("gpu: a policy whose device code differs is refused") {
  const std::size_t before = shim::allocations;
  CHECK(support::logic_error_of([] { gpu::Scaler<Different>(); }) ==
        "headroom: the policy's adjust has another result on the device than on the host: write "
        "__host__ __device__ before it and before all that it calls");
  CHECK(shim::allocations == before);
}
