// Nothing outside a span is read or written: elements lie against pages that end the program when accessed, on both sides.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/guard_page.hpp"
#include "support/isa.hpp"
#include "support/kernels.hpp"

using headroom::span;
using support::GuardedMemory;
using support::Mismatches;
using support::name_of;

namespace {

constexpr std::size_t most_elements = 100;
constexpr unsigned char untouched = 0xA5;

/// Whether all bytes of the memory, except those of the `n` elements, are still as they were filled.
template <class T>
bool rest_is_untouched(const GuardedMemory& memory, const T* elements, std::size_t n) {
  const auto* begin = reinterpret_cast<const unsigned char*>(elements);
  const auto is_untouched = [](unsigned char byte) { return byte == untouched; };
  return std::all_of(static_cast<const unsigned char*>(memory.begin()), begin, is_untouched) &&
         std::all_of(begin + n * sizeof(T), static_cast<const unsigned char*>(memory.end()), is_untouched);
}

template <class T>
void fill_with_threes(T* elements, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) elements[i] = T(3.0F);
}
template <class T>
bool all_are(float value, const T* elements, std::size_t n) {
  return std::all_of(elements, elements + n, [&](const T& element) { return element == T(value); });
}

/// Runs all verbs from one place to another. Each has a result that depends on every element.
template <class In, class Out>
bool transforms_stay_inside(const GuardedMemory& out_memory, const In* source, Out* destination, std::size_t n) {
  const span from(source, n);
  const span to(destination, n);
  std::fill(out_memory.begin(), out_memory.end(), untouched);
  bool right = headroom::unscale_into(from, to, 2.0F).finite && all_are(1.5F, destination, n);
  right = right && headroom::unscale_into(from, to, 0.75F).finite && all_are(4.0F, destination, n);
  support::scale_into(from, to, 3.0F);
  right = right && all_are(9.0F, destination, n);
  headroom::cast_into(from, to);
  right = right && all_are(3.0F, destination, n);
  right =
      right && headroom::unscale_in_place<headroom::allow_fp16_gradients>(to, 4.0F).finite && all_are(0.75F, destination, n);
  return right && rest_is_untouched(out_memory, destination, n);
}

template <class In>
bool reads_are_right(const In* source, std::size_t n) {
  const span elements(source, n);
  const headroom::GradientNorm measured = headroom::measure(elements);
  return headroom::all_finite(elements) && measured.finite && measured.max_abs == (n == 0 ? 0.0 : 3.0);
}

template <class In, class Out>
void check_pair(Mismatches& wrong) {
  const GuardedMemory in_memory(most_elements * sizeof(In)), out_memory(most_elements * sizeof(Out));
  // The neighbours of the elements are Inf and NaN in every format, so a read of them would show.
  std::fill(in_memory.begin(), in_memory.end(), static_cast<unsigned char>(0xFF));
  for (std::size_t n = 0; n <= most_elements; ++n) {
    for (const bool at_the_end : {false, true}) {
      In* source = at_the_end ? in_memory.last<In>(n) : in_memory.first<In>();
      Out* destination = at_the_end ? out_memory.last<Out>(n) : out_memory.first<Out>();
      std::fill(in_memory.begin(), in_memory.end(), static_cast<unsigned char>(0xFF));
      fill_with_threes(source, n);
      const bool right = transforms_stay_inside(out_memory, source, destination, n) && reads_are_right(source, n);
      wrong.expect(right, [&] {
        return name_of<In>() + " to " + name_of<Out>() + ", n = " + std::to_string(n) +
               (at_the_end ? " at the end" : " at the start");
      });
    }
  }
}

}  // namespace

TEST_CASE("reads and writes stay inside the span", "[kernel]") {
  support::for_each_isa([&](headroom::Isa) {
    Mismatches wrong;
    support::for_each_dtype([&](auto in) {
      support::for_each_dtype([&](auto out) { check_pair<typename decltype(in)::type, typename decltype(out)::type>(wrong); });
    });
    check_pair<headroom::float8_e4m3, headroom::float8_e4m3>(wrong);
    check_pair<headroom::float8_e4m3, float>(wrong);
    check_pair<float, headroom::cbfloat16>(wrong);
    INFO(wrong.first());
    CHECK(wrong.count() == 0);
  });
}
