#include <headroom.h>

#include <headroom/adapters/dlpack.hpp>
#include <headroom/fp8.hpp>
#include <headroom/headroom.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "support/c.hpp"
#include "support/catch.hpp"

using headroom::any_tensor;
using headroom::half;
using support::refuses;
using support::World;

namespace {

using InPlace = std::function<headroom_status(const headroom_tensor*, size_t, int32_t, headroom_report*)>;
using Into = std::function<headroom_status(const headroom_tensor*, const headroom_tensor*, size_t, int32_t, headroom_report*)>;

/// Verbs on one list. The first two have no report.
const std::vector<InPlace> verbs_in_place = {
    [](auto* list, auto n, auto threads, auto*) { return headroom_scale(list, n, 3.0, threads); },
    [](auto* list, auto n, auto threads, auto*) {
      int32_t found = 0;
      return headroom_find_nonfinite(list, n, threads, nullptr, &found);
    },
    [](auto* list, auto n, auto threads, auto* report) { return headroom_unscale(list, n, 3.0F, threads, report); },
    [](auto* list, auto n, auto threads, auto* report) {
      return headroom_unscale_and_clip(list, n, 3.0F, 0.5, threads, report);
    },
    [](auto* list, auto n, auto threads, auto* report) { return headroom_clip(list, n, 0.5, threads, report); },
    [](auto* list, auto n, auto threads, auto* report) { return headroom_measure(list, n, threads, report); },
};
const float factors[] = {0.5F, 3.0F, 1.0F, 1.0F};
/// Verbs on two lists. The first three have no report.
const std::vector<Into> verbs_into = {
    [](auto* from, auto* to, auto n, auto threads, auto*) { return headroom_cast(from, to, n, 0, threads); },
    [](auto* from, auto* to, auto n, auto threads, auto*) { return headroom_cast(from, to, n, 1, threads); },
    [](auto* from, auto* to, auto n, auto threads, auto*) { return headroom_dequantize(from, to, n, factors, threads); },
    [](auto* from, auto* to, auto n, auto threads, auto* report) {
      return headroom_unscale_into(from, to, n, 3.0F, threads, report);
    },
    [](auto* from, auto* to, auto n, auto threads, auto* report) {
      return headroom_accumulate_into(from, to, n, 3.0F, threads, report);
    },
    [](auto* from, auto* to, auto n, auto threads, auto* report) {
      return headroom_quantize(from, to, n, factors, nullptr, threads, report);
    },
};

/// What can be wrong with a tensor, and what the message says after its name.
struct Fault {
  const char* text;
  std::function<void(headroom_tensor&)> make;
};
const int64_t negative[] = {2, -1}, huge[] = {int64_t{1} << 40, int64_t{1} << 40}, two[] = {2, 2}, four_by_zero[] = {0, 1};
const std::vector<Fault> faults = {
    {"is null, with a size of 4", [](auto& t) { t.data = nullptr; }},
    {"dtype that is not supported: dtype code 2 of 17 bits", [](auto& t) { t.dtype = 2 << 8 | 17; }},
    {"dtype that is not supported: dtype code 5 of 64 bits", [](auto& t) { t.dtype = 5 << 8 | 64; }},
    {"ndim -3", [](auto& t) { t.ndim = -3; }},
    {"ndim 65", [](auto& t) { t.ndim = 65, t.shape = two; }},
    {"no shape", [](auto& t) { t.ndim = 2; }},
    {"shape 2x-1", [](auto& t) { t.ndim = 2, t.shape = negative; }},
    {"too large", [](auto& t) { t.ndim = 2, t.shape = huge, t.size = 0; }},
    {"size 3, ndim 2, shape 2x2", [](auto& t) { t.ndim = 2, t.shape = two, t.size = 3; }},
};
void repeat_elements(headroom_tensor& tensor) {
  tensor.ndim = 2;
  tensor.shape = two;
  tensor.strides = four_by_zero;
}

template <class T>
headroom_report report_of(const T& report, double norm) {
  return {sizeof(headroom_report), report.finite ? 1 : 0, report.max_abs, norm};
}
void check_equal(const headroom_report& a, const headroom_report& b) { CHECK(std::memcmp(&a, &b, sizeof a) == 0); }

}  // namespace

TEST_CASE("C: verbs in place are those of C++") {
  const std::vector<std::function<headroom_report(std::vector<any_tensor>&)>> expected = {
      [](auto& list) {
        return headroom::scale_in_place(list, 3.0), headroom_report{sizeof(headroom_report), -7, -7.0, -7.0};
      },
      [](auto&) {
        return headroom_report{sizeof(headroom_report), -7, -7.0, -7.0};
      },
      [](auto& list) { return report_of(headroom::unscale_in_place(list, 3.0F), -1.0); },
      [](auto& list) {
        const auto found = headroom::unscale_and_clip_in_place(list, 3.0F, 0.5);
        return report_of(found, found.norm);
      },
      [](auto& list) {
        const auto found = headroom::clip_by_global_norm(list, 0.5);
        return report_of(found, found.norm);
      },
      [](auto& list) {
        const auto found = headroom::measure(list);
        return report_of(found, found.norm);
      }};
  for (std::size_t verb = 0; verb < expected.size(); ++verb) {
    for (const int32_t threads : {0, 1, 3}) {
      World c, cpp;
      CHECK(verbs_in_place[verb](c.list().data(), 4, threads, &c.report) == HEADROOM_OK);
      std::vector<any_tensor> list;
      for (const headroom_tensor& tensor : cpp.list()) list.push_back(support::to_any(tensor));
      check_equal(c.report, expected[verb](list));
      cpp.report = c.report;
      CHECK(c == cpp);
    }
  }
}

TEST_CASE("C: verbs into another list are those of C++") {
  const std::vector<std::function<headroom_report(const std::vector<any_tensor>&, std::vector<any_tensor>&)>> expected = {
      [](auto& from, auto& to) {
        return headroom::cast_into(from, to), headroom_report{sizeof(headroom_report), -7, -7.0, -7.0};
      },
      [](auto& from, auto& to) {
        return headroom::cast_into(from, to, headroom::saturate), headroom_report{sizeof(headroom_report), -7, -7.0, -7.0};
      },
      [](auto& from, auto& to) {
        return headroom::dequantize_into(from, to, {factors, 2}), headroom_report{sizeof(headroom_report), -7, -7.0, -7.0};
      },
      [](auto& from, auto& to) { return report_of(headroom::unscale_into(from, to, 3.0F), -1.0); },
      [](auto& from, auto& to) { return report_of(headroom::accumulate_into(from, to, 3.0F), -1.0); },
      [](auto& from, auto& to) {
        float max_abs[2];
        return report_of(headroom::quantize_into(from, to, {factors, 2}, max_abs), -1.0);
      }};
  for (std::size_t verb = 0; verb < expected.size(); ++verb) {
    World c, cpp;
    const auto run = [&](World& world, auto call) {
      const headroom_tensor from[] = {world.list()[0], world.list()[1]};
      call(from, verb == 5 ? world.narrow().data() : world.wide().data());
    };
    run(c, [&](auto* from, auto* to) { CHECK(verbs_into[verb](from, to, 2, 0, &c.report) == HEADROOM_OK); });
    run(cpp, [&](auto* from, auto* to) {
      std::vector<any_tensor> source{support::to_any(from[0]), support::to_any(from[1])};
      std::vector<any_tensor> destination{support::to_any(to[0]), support::to_any(to[1])};
      cpp.report = expected[verb](source, destination);
    });
    CHECK(c == cpp);
  }
}

TEST_CASE("C: quantize reports the largest magnitude of each tensor") {
  World world;
  CHECK(headroom_quantize(world.list().data(), world.narrow().data(), 2, factors, world.max_abs, 0, &world.report) ==
        HEADROOM_OK);
  CHECK(world.max_abs[0] == 4.0F);
  CHECK(world.max_abs[1] == 8.0F);
}

TEST_CASE("C: the first Inf or NaN is found, by its place in the caller's list") {
  World world;
  auto list = world.list();
  std::swap(list[0], list[3]);  // an integer first
  CHECK(headroom_find_nonfinite(list.data(), 4, 0, &world.place, &world.found) == HEADROOM_OK);
  CHECK(world.found == 0);
  CHECK(world.place.nan_count + world.place.inf_count == 0);
  world.fp16[2] = half::from_bits(0x7E00);
  world.fp32[3] = 1.0F / 0.0F;
  CHECK(headroom_find_nonfinite(list.data(), 4, 2, &world.place, &world.found) == HEADROOM_OK);
  CHECK(world.found == 1);
  CHECK(world.place.tensor == 1);
  CHECK(world.place.index == 2);
  CHECK(world.place.is_nan == 1);
  CHECK(world.place.nan_count == 1);
  CHECK(world.place.inf_count == 1);
}

TEST_CASE("C: wrong lists in place") {
  World world;
  for (std::size_t verb = 0; verb < verbs_in_place.size(); ++verb) {
    const bool writes = verb != 1 && verb != 5;
    const auto call = [&](const headroom_tensor* list, size_t n = 4, int32_t threads = 0) {
      return [&, list, n, threads] { return verbs_in_place[verb](list, n, threads, &world.report); };
    };
    for (const Fault& fault : faults) {
      auto list = world.list();
      fault.make(list[2]);
      refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors[2] ", fault.text}, call(list.data()));
    }
    auto list = world.list();
    repeat_elements(list[2]);
    if (writes) refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors[2] repeats elements"}, call(list.data()));
    if (!writes) CHECK(call(list.data())() == HEADROOM_OK);
    list = world.list();
    list[2] = list[0];
    if (writes) refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors[0] and tensors[2]"}, call(list.data()));
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors is NULL", "4"}, call(nullptr));
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"threads", "-2"}, call(list.data(), 2, -2));
    CHECK(call(nullptr, 0)() == HEADROOM_OK);
    if (verb < 2) continue;
    world.report.struct_size = 0;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"report", "struct_size is 0"}, call(list.data(), 2));
    world.report.struct_size = sizeof world.report;
    CHECK(verbs_in_place[verb](world.list().data(), 4, 0, nullptr) == HEADROOM_OK);
  }
}

TEST_CASE("C: wrong pairs of lists") {
  World world;
  for (std::size_t verb = 0; verb < verbs_into.size(); ++verb) {
    const auto good_to = verb == 5 ? world.narrow() : world.wide();
    const auto call = [&](const headroom_tensor* from, const headroom_tensor* to, size_t n = 2, int32_t threads = 0) {
      return [&, from, to, n, threads] { return verbs_into[verb](from, to, n, threads, &world.report); };
    };
    for (const Fault& fault : faults) {
      auto from = world.list(), to = good_to;
      fault.make(from[1]);
      refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1] ", fault.text}, call(from.data(), to.data()));
      from = world.list();
      fault.make(to[1]);
      refuses(world, HEADROOM_INVALID_ARGUMENT, {"to[1] ", fault.text},
              call(from.data(), to.data()));
    }
    auto from = world.list(), to = good_to;
    repeat_elements(to[1]);
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"to[1] repeats elements"}, call(from.data(), to.data()));
    to = good_to;
    to[1].size = 3;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1]", "4", "3"}, call(from.data(), to.data()));
    to = good_to;
    to[1].dtype = 32;  // int32
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"[1]"}, call(from.data(), to.data()));
    to = good_to;
    to[1].data = static_cast<char*>(from[1].data) + 1;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1]", "overlap"}, call(from.data(), to.data()));
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"from is NULL"}, call(nullptr, to.data()));
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"to is NULL"}, call(from.data(), nullptr));
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"threads", "-1"}, call(from.data(), good_to.data(), 2, -1));
    CHECK(call(nullptr, nullptr, 0)() == HEADROOM_OK);
    if (verb < 3) continue;
    world.report.struct_size = 3;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"report", "struct_size is 3"}, call(from.data(), good_to.data()));
    world.report.struct_size = sizeof world.report;
  }
}

TEST_CASE("C: wrong numbers") {
  World world;
  const auto list = world.list(), to = world.wide(), narrow = world.narrow();
  const float nan = std::numeric_limits<float>::quiet_NaN(), bad[] = {1.0F, nan};
  for (const float scale : {0.0F, -1.0F, nan, 0x1p127F}) {
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"loss_scale is "},
            [&] { return headroom_unscale(list.data(), 4, scale, 0, nullptr); });
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"loss_scale is "},
            [&] { return headroom_accumulate_into(list.data(), to.data(), 2, scale, 0, nullptr); });
  }
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"factor is inf"}, [&] { return headroom_scale(list.data(), 4, HUGE_VAL, 0); });
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"max_norm is -1"},
          [&] { return headroom_clip(list.data(), 4, -1.0, 0, nullptr); });
  const auto quantize = [&](const headroom_tensor* to_list, const float* scales) {
    return [&, to_list, scales] { return headroom_quantize(list.data(), to_list, 2, scales, world.max_abs, 0, &world.report); };
  };
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"scales[1] of from[1] is nan"}, quantize(narrow.data(), bad));
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"scales is NULL"}, quantize(narrow.data(), nullptr));
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"to[0] has a dtype that this call cannot take"}, quantize(to.data(), factors));
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[3] has a dtype that this call cannot take"},
          [&] { return headroom_dequantize(list.data(), list.data(), 4, factors, 0); });
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"inverse_scales is NULL"},
          [&] { return headroom_dequantize(list.data(), to.data(), 2, nullptr, 0); });
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"found is NULL"},
          [&] { return headroom_find_nonfinite(list.data(), 4, 0, &world.place, nullptr); });
  world.place.struct_size = 0;
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"place", "struct_size is 0"},
          [&] { return headroom_find_nonfinite(list.data(), 4, 0, &world.place, &world.found); });
}

TEST_CASE("C: strided tensors") {
  World world;
  const int64_t shape[] = {2}, strides[] = {-2};
  const headroom_tensor every_second{world.fp32 + 2, 0, HEADROOM_FLOAT32, 1, shape, strides};
  CHECK(headroom_scale(&every_second, 1, 10.0, 0) == HEADROOM_OK);
  CHECK(std::vector<float>(world.fp32, world.fp32 + 4) == std::vector<float>{10.0F, -2.0F, 30.0F, -4.0F});
}

TEST_CASE("C: tensors of DLPack") {
  World world;
  int64_t shape[] = {2}, strides[] = {1};
  headroom::dlpack::DLTensor tensor{world.fp32, {1, 0}, 1, {2, 32, 1}, shape, strides, 2 * sizeof(float)};
  CHECK(headroom_from_dlpack(&tensor, &world.tensor) == HEADROOM_OK);
  CHECK(world.tensor.data == world.fp32 + 2);
  CHECK(world.tensor.dtype == HEADROOM_FLOAT32);
  CHECK(headroom_scale(&world.tensor, 1, 2.0, 0) == HEADROOM_OK);
  CHECK(world.fp32[1] == -2.0F);
  CHECK(world.fp32[2] == 6.0F);
  const auto convert = [&] { return headroom_from_dlpack(&tensor, &world.tensor); };
  tensor.device.device_type = 2;
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"device_type 2"}, convert);
  tensor.device.device_type = 1;
  tensor.dtype.lanes = 4;
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"4 lanes"}, convert);
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"dl_tensor is NULL"},
          [&] { return headroom_from_dlpack(nullptr, &world.tensor); });
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"out is NULL"}, [&] { return headroom_from_dlpack(&tensor, nullptr); });
}
