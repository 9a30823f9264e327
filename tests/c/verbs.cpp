#include <headroom.h>

#include <headroom/adapters/dlpack.hpp>
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <algorithm>
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

using namespace support;

// The layouts of the structs, which other languages repeat.
static_assert(sizeof(headroom_report) == 24 && sizeof(headroom_place) == 40 &&
              sizeof(headroom_step) == 80);
static_assert(offsetof(headroom_step, report) == 16 && offsetof(headroom_step, nonfinite) == 40);
static_assert(sizeof(void*) != 8 ||
              (sizeof(headroom_tensor) == 40 && offsetof(headroom_tensor, shape) == 24));

namespace {

using Tree = std::vector<headroom::any_tensor>;

Tree tree_of(const std::vector<headroom_tensor>& list, std::size_t n) {
  Tree tree;
  for (std::size_t i = 0; i < n; ++i)
    tree.emplace_back(list[i].data, static_cast<headroom::dtype_code>(list[i].dtype),
                      static_cast<std::size_t>(list[i].size));
  return tree;
}
headroom_report untouched() { return World().report; }
headroom_report to_c(const headroom::GradientReport& report) {
  return {sizeof(headroom_report), report.finite ? 1 : 0, report.max_abs, -1.0};
}
headroom_report to_c(const headroom::GradientNorm& report) {
  return {sizeof(headroom_report), report.finite ? 1 : 0, report.max_abs, report.norm};
}

// The verbs of support/c.hpp in C++.
const std::vector<std::function<headroom_report(Tree&)>> cpp_in_place = {
    [](auto&) { return untouched(); },
    [](auto& tree) { return headroom::scale_in_place(tree, 3.0), untouched(); },
    [](auto& tree) {
      return to_c(headroom::unscale_in_place<headroom::allow_fp16_gradients>(tree, 3.0F));
    },
    [](auto& tree) {
      return to_c(
          headroom::unscale_and_clip_in_place<headroom::allow_fp16_gradients>(tree, 3.0F, 0.5));
    },
    [](auto& tree) { return to_c(headroom::clip_by_global_norm(tree, 0.5)); },
    [](auto& tree) { return to_c(headroom::measure(tree)); },
};
float unused[2];
const std::vector<std::function<headroom_report(const Tree&, Tree&)>> cpp_into = {
    [](auto& from, auto& to) { return headroom::cast_into(from, to), untouched(); },
    [](auto& from, auto& to) {
      return headroom::cast_into(from, to, headroom::saturate), untouched();
    },
    [](auto& from, auto& to) {
      return headroom::dequantize_into(from, to, {factors, 2}), untouched();
    },
    [](auto& from, auto& to) { return to_c(headroom::unscale_into(from, to, 3.0F)); },
    [](auto& from, auto& to) { return to_c(headroom::accumulate_into(from, to, 3.0F)); },
    [](auto& from, auto& to) {
      return to_c(headroom::quantize_into(from, to, {factors, 2}, {unused, 2}));
    },
};

/// What can be wrong with a tensor, and what the message says.
struct Fault {
  const char* text;
  std::function<void(headroom_tensor&)> make;
};
const int64_t negative[] = {2, -1}, huge[] = {int64_t{1} << 40, int64_t{1} << 40}, two[] = {2, 2},
              overlapping[] = {0, 1};
const int64_t many[17] = {2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
const std::vector<Fault> faults = {
    {"is null, with a size of 4", [](auto& t) { t.data = nullptr; }},
    {"dtype that is not supported: dtype code 2 of 17 bits",
     [](auto& t) { t.dtype = 2 << 8 | 17; }},
    {"dtype that is not supported: dtype code 5 of 64 bits",
     [](auto& t) { t.dtype = 5 << 8 | 64; }},
    {"ndim -3", [](auto& t) { t.ndim = -3; }},
    {"ndim 17", [](auto& t) { t.ndim = 17, t.shape = many; }},
    {"no shape", [](auto& t) { t.ndim = 2; }},
    {"has a negative shape", [](auto& t) { t.ndim = 2, t.shape = negative; }},
    {"too large", [](auto& t) { t.ndim = 2, t.shape = huge, t.size = 0; }},
    {"size 3, ndim 2, shape 2x2", [](auto& t) { t.ndim = 2, t.shape = two, t.size = 3; }},
    {"repeats elements", [](auto& t) { t.ndim = 2, t.shape = two, t.strides = overlapping; }},
};

}  // namespace

TEST_CASE("C: verbs do what those of C++ do") {
  for (const int32_t threads : {0, 1, 3}) {
    for (std::size_t verb = 0; verb < cpp_in_place.size(); ++verb) {
      World c, cpp;
      CHECK(verbs_in_place[verb](c.list().data(), 4, threads, &c.report) == HEADROOM_OK);
      Tree tree = tree_of(cpp.list(), 4);
      cpp.report = cpp_in_place[verb](tree);
      CHECK(c.bytes() == cpp.bytes());
    }
    for (std::size_t verb = 0; verb < cpp_into.size(); ++verb) {
      World c, cpp;
      const bool is_fp8 = verb == 5;
      CHECK(verbs_into[verb](c.list().data(), (is_fp8 ? c.narrow() : c.wide()).data(), 2, threads,
                             &c.report) == HEADROOM_OK);
      const Tree from = tree_of(cpp.list(), 2);
      Tree to = tree_of(is_fp8 ? cpp.narrow() : cpp.wide(), 2);
      cpp.report = cpp_into[verb](from, to);
      CHECK(c.bytes() == cpp.bytes());
    }
  }
  World world;
  CHECK(headroom_quantize(world.list().data(), world.narrow().data(), 2, factors, world.max_abs, 0,
                          nullptr) == HEADROOM_OK);
  CHECK((world.max_abs[0] == 4.0F && world.max_abs[1] == 8.0F));
  world.fp32[0] = 1e10F;
  CHECK(headroom_cast(world.list().data(), world.narrow().data(), 1, 1, 0) == HEADROOM_OK);
  CHECK(world.narrow_to[0] == 0x7E);  // the largest number
  world.narrow_to[0] = 0;
  CHECK(headroom_cast(world.list().data(), world.narrow().data(), 1, 2, 0) == HEADROOM_OK);
  CHECK(world.narrow_to[0] == 0x7E);  // any but 0 saturates
  CHECK(headroom_cast(world.list().data(), world.narrow().data(), 1, 0, 0) == HEADROOM_OK);
  CHECK(world.narrow_to[0] == 0x7F);  // NaN
  world.fp32[0] = 1.0F;
  const int64_t shape[] = {2}, strides[] = {-2};
  const headroom_tensor every_second{world.fp32 + 2, 0, HEADROOM_FLOAT32, 1, shape, strides};
  CHECK(headroom_scale_in_place(&every_second, 1, 10.0, 0) == HEADROOM_OK);
  CHECK(std::vector<float>(world.fp32, world.fp32 + 4) ==
        std::vector<float>{10.0F, -2.0F, 30.0F, -4.0F});
  const headroom_tensor most_dimensions{world.fp32, 0, HEADROOM_FLOAT32, 16, many, nullptr};
  CHECK(headroom_scale_in_place(&most_dimensions, 1, 0.5, 0) == HEADROOM_OK);
  CHECK(std::vector<float>(world.fp32, world.fp32 + 4) ==
        std::vector<float>{5.0F, -1.0F, 15.0F, -2.0F});
}

TEST_CASE("C: no more is written than struct_size says, and nothing is quantized by no scales") {
  World world;
  const auto list = world.list();
  world.fp32[2] = HUGE_VALF;
  CHECK(headroom_measure(list.data(), 4, 0, &world.report) == HEADROOM_OK);
  for (std::size_t size = 4; size <= sizeof world.report + 8; ++size) {
    headroom_report memory[2];
    std::memset(memory, 0x5A, sizeof memory);
    memory[0].struct_size = static_cast<std::uint32_t>(size);
    CHECK(headroom_measure(list.data(), 4, 0, memory) == HEADROOM_OK);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(memory);
    const std::size_t written = std::min(size, sizeof world.report);
    CHECK(memory[0].struct_size == written);
    CHECK(std::memcmp(bytes + 4, reinterpret_cast<const unsigned char*>(&world.report) + 4,
                      written - 4) == 0);
    CHECK(std::all_of(bytes + written, bytes + sizeof memory,
                      [](unsigned char byte) { return byte == 0x5A; }));
  }
  CHECK(headroom_quantize(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr) == HEADROOM_OK);
  CHECK(headroom_dequantize(nullptr, nullptr, 0, nullptr, 0) == HEADROOM_OK);
}

TEST_CASE("C: the first Inf or NaN is found, by its place in the caller's list") {
  World world;
  auto list = world.list();
  std::swap(list[0], list[3]);  // an integer first
  CHECK(headroom_find_nonfinite(list.data(), 4, 0, &world.place, &world.found) == HEADROOM_OK);
  CHECK((world.found == 0 && world.place.nan_count + world.place.inf_count == 0));
  world.fp16[2] = headroom::half::from_bits(0x7E00);
  world.fp32[3] = HUGE_VALF;
  CHECK(headroom_find_nonfinite(list.data(), 4, 2, &world.place, &world.found) == HEADROOM_OK);
  CHECK((world.found == 1 && world.place.tensor == 1 && world.place.index == 2 &&
         world.place.is_nan == 1));
  CHECK((world.place.nan_count == 1 && world.place.inf_count == 1));
}

TEST_CASE("C: wrong lists") {
  World world;
  for (std::size_t verb = 0; verb < verbs_in_place.size(); ++verb) {
    const bool writes = verb != 0 && verb != 5;
    auto list = world.list();
    const auto call = [&] { return verbs_in_place[verb](list.data(), 4, 0, &world.report); };
    for (std::size_t i = 0; i < faults.size() - (writes ? 0U : 1U); ++i) {
      list = world.list();
      faults[i].make(list[2]);
      refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors[2] ", faults[i].text}, call);
    }
    list[2] = list[0] = world.list()[0];
    if (writes) refuses(world, HEADROOM_INVALID_ARGUMENT, {"tensors[0] and tensors[2]"}, call);
    list = world.list();
    refuses_all(world, {{"tensors is NULL",
                         [&] { return verbs_in_place[verb](nullptr, 4, 0, &world.report); }},
                        {"threads is -2",
                         [&] { return verbs_in_place[verb](list.data(), 4, -2, &world.report); }}});
    world.report.struct_size = 0;
    if (verb > 1) refuses(world, HEADROOM_INVALID_ARGUMENT, {"report->struct_size is 0"}, call);
    world.report.struct_size = sizeof world.report;
    CHECK(verbs_in_place[verb](nullptr, 0, 0, &world.report) == HEADROOM_OK);
    CHECK(verbs_in_place[verb](list.data(), 4, 0, nullptr) == HEADROOM_OK);
  }
}

TEST_CASE("C: wrong pairs of lists") {
  World world;
  for (std::size_t verb = 0; verb < verbs_into.size(); ++verb) {
    const auto good_from = world.list(), good_to = verb == 5 ? world.narrow() : world.wide();
    auto from = good_from, to = good_to;
    const auto call = [&] { return verbs_into[verb](from.data(), to.data(), 2, 0, &world.report); };
    for (const Fault& fault : faults) {
      from = good_from;
      fault.make(to[1]);
      refuses(world, HEADROOM_INVALID_ARGUMENT, {"to[1] ", fault.text}, call);
      to = good_to;
      fault.make(from[1]);
      if (from[1].strides == nullptr)
        refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1] ", fault.text}, call);
    }
    from = good_from;
    to[1].size = 3;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1]", "4", "3"}, call);
    to[1] = world.list()[3];
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"[1]"}, call);
    to[1] = good_to[1];
    to[1].data = static_cast<char*>(from[1].data) + 1;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"from[1]", "overlap"}, call);
    to = good_to;
    refuses_all(world,
                {{"from is NULL",
                  [&] { return verbs_into[verb](nullptr, to.data(), 2, 0, &world.report); }},
                 {"to is NULL",
                  [&] { return verbs_into[verb](from.data(), nullptr, 2, 0, &world.report); }},
                 {"threads is -1",
                  [&] { return verbs_into[verb](from.data(), to.data(), 2, -1, &world.report); }}});
    world.report.struct_size = 3;
    if (verb > 2) refuses(world, HEADROOM_INVALID_ARGUMENT, {"report->struct_size is 3"}, call);
    world.report.struct_size = sizeof world.report;
    CHECK(verbs_into[verb](nullptr, nullptr, 0, 0, &world.report) == HEADROOM_OK);
  }
}

TEST_CASE("C: wrong numbers") {
  World world;
  const auto all = world.list(), wide = world.wide(), fp8 = world.narrow();
  const headroom_tensor *const list = all.data(), *const to = wide.data(),
                               *const narrow = fp8.data();
  const float nan = std::numeric_limits<float>::quiet_NaN(), bad[] = {1.0F, nan};
  for (const float scale : {0.0F, -1.0F, nan, 0x1p127F}) {
    refuses_all(
        world,
        {{"loss_scale is ", [&] { return headroom_unscale_in_place(list, 4, scale, 0, nullptr); }},
         {"loss_scale is ", [&] { return headroom_unscale_into(list, to, 2, scale, 0, nullptr); }},
         {"loss_scale is ",
          [&] { return headroom_accumulate_into(list, to, 2, scale, 0, nullptr); }},
         {"loss_scale is ",
          [&] { return headroom_unscale_and_clip_in_place(list, 4, scale, 1.0, 0, nullptr); }}});
  }
  const auto quantize = [&](const headroom_tensor* destination, const float* scales) {
    return headroom_quantize(list, destination, 2, scales, world.max_abs, 0, &world.report);
  };
  const char* const other_dtype =
      "[0] has a dtype that this call cannot take: dtype code 2 of 32 bits";
  refuses_all(
      world,
      {{"factor is inf", [&] { return headroom_scale_in_place(list, 4, HUGE_VAL, 0); }},
       {"max_norm is -1", [&] { return headroom_clip_by_global_norm(list, 4, -1.0, 0, nullptr); }},
       {"scales[1] of from[1] is nan", [&] { return quantize(narrow, bad); }},
       {"scales is NULL", [&] { return quantize(narrow, nullptr); }},
       {other_dtype, [&] { return quantize(to, factors); }},
       {"from[3] has a dtype", [&] { return headroom_dequantize(list, list, 4, factors, 0); }},
       {"inverse_scales is NULL", [&] { return headroom_dequantize(list, to, 2, nullptr, 0); }},
       {"found is NULL",
        [&] { return headroom_find_nonfinite(list, 4, 0, &world.place, nullptr); }}});
  world.place.struct_size = 0;
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"place->struct_size is 0"},
          [&] { return headroom_find_nonfinite(list, 4, 0, &world.place, &world.found); });
}

TEST_CASE("C: tensors of DLPack") {
  World world;
  int64_t shape[] = {2}, strides[] = {1};
  headroom::dlpack::DLTensor tensor{world.fp32, {1, 0},           1, {2, 32, 1}, shape,
                                    strides,    2 * sizeof(float)};
  const auto convert = [&] { return headroom_from_dlpack(&tensor, &world.tensor); };
  CHECK(convert() == HEADROOM_OK);
  CHECK(headroom_scale_in_place(&world.tensor, 1, 2.0, 0) == HEADROOM_OK);
  CHECK(std::vector<float>(world.fp32, world.fp32 + 4) ==
        std::vector<float>{1.0F, -2.0F, 6.0F, -8.0F});
  CHECK(world.tensor.ndim == 1);
  tensor.byte_offset = 0;
  strides[0] = 2;
  CHECK(convert() == HEADROOM_OK);
  CHECK(headroom_scale_in_place(&world.tensor, 1, 4.0, 0) == HEADROOM_OK);
  CHECK(std::vector<float>(world.fp32, world.fp32 + 4) ==
        std::vector<float>{4.0F, -2.0F, 24.0F, -8.0F});
  refuses_all(world,
              {{"dl_tensor is NULL", [&] { return headroom_from_dlpack(nullptr, &world.tensor); }},
               {"out is NULL", [&] { return headroom_from_dlpack(&tensor, nullptr); }}});
  tensor.device.device_type = 2;
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"device_type 2"}, convert);
}
