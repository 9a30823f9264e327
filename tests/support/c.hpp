#pragma once

#include <headroom.h>

#include <headroom/dtype/half.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace support {

using Policy = std::unique_ptr<headroom_loss_scale, decltype(&headroom_loss_scale_free)>;
using Scaler = std::unique_ptr<headroom_grad_scaler, decltype(&headroom_grad_scaler_free)>;

inline Policy make_policy(const char* name, const char* settings = nullptr) {
  headroom_loss_scale* policy = nullptr;
  CHECK(headroom_loss_scale_make(name, settings, &policy) == HEADROOM_OK);
  return {policy, headroom_loss_scale_free};
}
inline Scaler make_scaler(const headroom_loss_scale* policy = nullptr) {
  headroom_grad_scaler* scaler = nullptr;
  CHECK(headroom_grad_scaler_make(policy, &scaler) == HEADROOM_OK);
  return {scaler, headroom_grad_scaler_free};
}

/// Everything that calls of the C interface may write, so that one comparison finds out whether
/// they have.
struct World {
  float fp32[4] = {1.0F, -2.0F, 3.0F, -4.0F}, wide_to[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  headroom::half fp16[4] = {headroom::half(5.0F), headroom::half(-6.0F), headroom::half(7.0F),
                            headroom::half(8.0F)};
  double fp64[4] = {9.0, 10.0, 11.0, 12.0};
  int32_t integers[4] = {0x7F800000, 2, 3, 4};
  std::uint8_t narrow_to[8] = {};
  float max_abs[2] = {-7.0F, -7.0F};
  int32_t found = -7, padding = 0;
  headroom_report report{sizeof(headroom_report), -7, -7.0, -7.0};
  headroom_place place{sizeof(headroom_place), -7, 7, 7, 7, 7};
  headroom_step step{sizeof(headroom_step), -7, -7, -7.0F, report, place};
  headroom_tensor tensor{};
  double scaled = -7.0;
  std::size_t size = sizeof text;
  headroom_loss_scale* policy = nullptr;
  char text[1000] = {};

  std::vector<headroom_tensor> list() {
    return {flat(fp32, HEADROOM_FLOAT32), flat(fp16, HEADROOM_FLOAT16),
            flat(fp64, HEADROOM_FLOAT64), flat(integers, 32)};
  }
  // Destinations of the first two.
  std::vector<headroom_tensor> wide() {
    return {flat(wide_to, HEADROOM_FLOAT32), flat(wide_to + 4, HEADROOM_FLOAT32)};
  }
  std::vector<headroom_tensor> narrow() {
    return {flat(narrow_to, HEADROOM_FLOAT8_E4M3FN), flat(narrow_to + 4, HEADROOM_FLOAT8_E5M2)};
  }
  static headroom_tensor flat(void* first, headroom_dtype dtype) {
    return {first, 4, dtype, 0, nullptr, nullptr};
  }
  [[nodiscard]] std::vector<unsigned char> bytes() const {
    const auto* const first = reinterpret_cast<const unsigned char*>(this);
    return {first, first + sizeof *this};
  }
};

/// Checks that `call` fails with the status and a message with the texts and one prefix, and that
/// it has written nothing.
template <class Call>
void refuses(const World& world, headroom_status status, std::initializer_list<std::string> texts,
             const Call& call) {
  const auto before = world.bytes();
  CHECK(call() == status);
  CHECK(std::string(headroom_last_error()).rfind("headroom: ") == 0);
  for (const std::string& text : texts)
    CHECK_THAT(headroom_last_error(), Catch::Matchers::ContainsSubstring(text));
  const bool is_unchanged = world.bytes() == before;
  CHECK(is_unchanged);
}
struct WrongCall {
  const char* text;
  std::function<headroom_status()> call;
};
inline void refuses_all(const World& world, const std::vector<WrongCall>& wrong) {
  for (const WrongCall& one : wrong)
    refuses(world, HEADROOM_INVALID_ARGUMENT, {one.text}, one.call);
}

using List = const headroom_tensor*;
using InPlace = std::function<headroom_status(List, size_t, int32_t threads, headroom_report*)>;
using Into = std::function<headroom_status(List, List, size_t, int32_t threads, headroom_report*)>;

/// The first two have no report. The first and the last only read.
inline const std::vector<InPlace> verbs_in_place = {
    [](List list, auto n, auto threads, auto*) {
      int32_t found = 0;
      return headroom_find_nonfinite(list, n, threads, nullptr, &found);
    },
    [](List list, auto n, auto threads, auto*) {
      return headroom_scale_in_place(list, n, 3.0, threads);
    },
    [](List list, auto n, auto threads, auto* report) {
      return headroom_unscale_in_place(list, n, 3.0F, threads, report);
    },
    [](List list, auto n, auto threads, auto* report) {
      return headroom_unscale_and_clip_in_place(list, n, 3.0F, 0.5, threads, report);
    },
    [](List list, auto n, auto threads, auto* report) {
      return headroom_clip_by_global_norm(list, n, 0.5, threads, report);
    },
    [](List list, auto n, auto threads, auto* report) {
      return headroom_measure(list, n, threads, report);
    },
};
inline const float factors[] = {0.5F, 3.0F, 1.0F, 1.0F};
/// The first three have no report. The last writes 8-bit dtypes.
inline const std::vector<Into> verbs_into = {
    [](List from, List to, auto n, auto threads, auto*) {
      return headroom_cast(from, to, n, 0, threads);
    },
    [](List from, List to, auto n, auto threads, auto*) {
      return headroom_cast(from, to, n, 1, threads);
    },
    [](List from, List to, auto n, auto threads, auto*) {
      return headroom_dequantize(from, to, n, factors, threads);
    },
    [](List from, List to, auto n, auto threads, auto* report) {
      return headroom_unscale_into(from, to, n, 3.0F, threads, report);
    },
    [](List from, List to, auto n, auto threads, auto* report) {
      return headroom_accumulate_into(from, to, n, 3.0F, threads, report);
    },
    [](List from, List to, auto n, auto threads, auto* report) {
      return headroom_quantize(from, to, n, factors, nullptr, threads, report);
    },
};

}  // namespace support
