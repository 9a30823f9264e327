#pragma once

#include <headroom.h>

#include <headroom/dtype/half.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace support {

inline headroom::any_tensor to_any(const headroom_tensor& tensor) {
  return {tensor.data, static_cast<headroom::dtype_code>(tensor.dtype), static_cast<std::size_t>(tensor.size)};
}

/// Everything that calls of the C interface may write, so that one comparison finds out whether they have.
struct World {
  float fp32[4] = {1.0F, -2.0F, 3.0F, -4.0F}, wide_to[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  headroom::half fp16[4] = {headroom::half(5.0F), headroom::half(-6.0F), headroom::half(7.0F), headroom::half(8.0F)};
  double fp64[4] = {9.0, 10.0, 11.0, 12.0};
  int32_t integers[4] = {0x7F800000, 2, 3, 4};
  std::uint8_t narrow_to[8] = {};
  float max_abs[2] = {-7.0F, -7.0F};
  headroom_report report{sizeof(headroom_report), -7, -7.0, -7.0};
  headroom_place place{sizeof(headroom_place), -7, 7, 7, 7, 7};
  headroom_step step{sizeof(headroom_step), -7, -7, -7.0F, report, place};
  headroom_tensor tensor{};
  int32_t found = -7;
  double scaled = -7.0;
  char text[1000] = {};
  std::size_t size = sizeof text;
  headroom_loss_scale* policy = nullptr;
  headroom_grad_scaler* scaler = nullptr;

  World() = default;
  /// fp32, fp16, fp64, int32
  std::vector<headroom_tensor> list() {
    return {{fp32, 4, HEADROOM_FLOAT32, 0, nullptr, nullptr},
            {fp16, 4, HEADROOM_FLOAT16, 0, nullptr, nullptr},
            {fp64, 4, HEADROOM_FLOAT64, 0, nullptr, nullptr},
            {integers, 4, 32, 0, nullptr, nullptr}};
  }
  /// Destinations of the first two.
  std::vector<headroom_tensor> wide() {
    return {{wide_to, 4, HEADROOM_FLOAT32, 0, nullptr, nullptr}, {wide_to + 4, 4, HEADROOM_FLOAT32, 0, nullptr, nullptr}};
  }
  std::vector<headroom_tensor> narrow() {
    return {{narrow_to, 4, HEADROOM_FLOAT8_E4M3FN, 0, nullptr, nullptr},
            {narrow_to + 4, 4, HEADROOM_FLOAT8_E5M2, 0, nullptr, nullptr}};
  }
  [[nodiscard]] std::vector<unsigned char> bytes() const {
    const auto* const first = reinterpret_cast<const unsigned char*>(this);
    return {first, first + sizeof *this};
  }
  /// Compares what verbs write.
  friend bool operator==(const World& a, const World& b) {
    const auto same = [](const auto& x, const auto& y) { return std::memcmp(&x, &y, sizeof x) == 0; };
    return same(a.fp32, b.fp32) && same(a.wide_to, b.wide_to) && same(a.fp16, b.fp16) && same(a.fp64, b.fp64) &&
           same(a.integers, b.integers) && same(a.narrow_to, b.narrow_to) && same(a.report, b.report);
  }
};

/// Checks that `call` fails with the status and a message with the texts, and that it has written nothing.
template <class Call>
void refuses(const World& world, headroom_status status, std::initializer_list<std::string> texts, const Call& call) {
  const auto before = world.bytes();
  CHECK(call() == status);
  for (const std::string& text : texts) CHECK_THAT(headroom_last_error(), Catch::Matchers::ContainsSubstring(text));
  const bool is_unchanged = world.bytes() == before;
  CHECK(is_unchanged);
}

}  // namespace support
