// What the checked kernels accept, what they refuse and with which words, and that nothing has been written when they refuse.
#include <headroom/kernel/kernel.hpp>

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"

using headroom::half;
using headroom::span;
using support::bits_of;
namespace kernel = headroom::kernel;

namespace {

/// A 16-bit float of somebody else.
struct ForeignHalf {
  std::uint16_t stored;
};

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

float float_with(std::uint32_t bits) {
  float value = 0.0F;
  support::set_bits(value, bits);
  return value;
}

}  // namespace

template <>
struct headroom::dtype_traits<ForeignHalf> {
  using format = headroom::binary16;
};

TEST_CASE("kernels on whatever a span can be made from", "[kernel]") {
  support::for_each_isa([&](headroom::Isa) {
    std::vector<half> gradients{half(1024.0F), half(-2048.0F), half(0.5F)};
    std::array<float, 3> array{};
    float c_array[3] = {};
    std::vector<double> doubles(3);
    const std::vector<half> constant = gradients;
    CHECK(kernel::unscale_into(gradients, array, 1024.0F).max_abs == 2.0);
    CHECK(kernel::unscale_into(constant, c_array, 1024.0F).finite);
    CHECK(kernel::unscale_into(span<const half>(constant), span<double>(doubles), 1024.0F).finite);
    CHECK(array == std::array<float, 3>{1.0F, -2.0F, 0x1p-11F});
    CHECK((c_array[0] == 1.0F && c_array[1] == -2.0F && c_array[2] == 0x1p-11F));
    CHECK(doubles == std::vector<double>{1.0, -2.0, 0x1p-11});

    kernel::scale_in_place(array, 4.0F);
    CHECK(array == std::array<float, 3>{4.0F, -8.0F, 0x1p-9F});
    kernel::scale_into(constant, doubles, 2.0F);
    CHECK(doubles == std::vector<double>{2048.0, -4096.0, 1.0});
    kernel::cast_into(c_array, gradients);
    CHECK(gradients[1] == half(-2.0F));
    CHECK(kernel::unscale_in_place(span(gradients.data(), 2), 2.0F).max_abs == 1.0);
    CHECK(gradients[2] == half(0x1p-11F));
    CHECK(kernel::all_finite(c_array));
    CHECK(kernel::measure(span(array)).max_abs == 8.0);
  });
}

TEST_CASE("kernels on foreign types, without a conversion", "[kernel]") {
  support::for_each_isa([&](headroom::Isa) {
    std::vector<ForeignHalf> foreign(21, ForeignHalf{0x3C00});
    foreign[17].stored = 0x7C00;
    std::vector<float> floats(21);
    CHECK_FALSE(kernel::unscale_into(foreign, floats, 2.0F).finite);
    CHECK(floats[16] == 0.5F);
    foreign[17].stored = 0xC000;
    CHECK(kernel::unscale_in_place(foreign, 2.0F).max_abs == 1.0);
    CHECK(foreign[17].stored == 0xBC00);
    std::vector<headroom::bfloat16> bfloats(21);
    kernel::cast_into(foreign, bfloats);
    CHECK(bfloats[17] == headroom::bfloat16(-1.0F));
#if HEADROOM_DETAIL_HAS_FLOAT16
    std::vector<_Float16> theirs(21, static_cast<_Float16>(3.0F));
    CHECK(kernel::unscale_into(theirs, floats, 3.0F).max_abs == 1.0);
    CHECK(kernel::measure(theirs).max_abs == 3.0);
    kernel::cast_into(floats, theirs);
    CHECK(bits_of(theirs[20]) == 0x3C00);
#endif
#if HEADROOM_DETAIL_HAS_BF16
    std::vector<__bf16> brains(21);
    kernel::cast_into(std::vector<float>(21, 3.0F), brains);
    CHECK(kernel::unscale_into(brains, floats, 3.0F).max_abs == 1.0);
    CHECK(kernel::all_finite(brains));
#endif
  });
}

TEST_CASE("empty spans are finite and nothing happens to them", "[kernel]") {
  support::for_each_isa([&](headroom::Isa) {
    std::vector<half> none;
    std::vector<float> no_floats;
    for (const headroom::GradientReport& report :
         {kernel::unscale_into(none, no_floats, 1024.0F), kernel::unscale_in_place(none, 1000.0F),
          kernel::unscale_in_place(span<float>(), 2.0F),
          kernel::unscale_into(span<const half>(nullptr, 0), span<double>(nullptr, 0), 2.0F)}) {
      CHECK(report.finite);
      CHECK(report.max_abs == 0.0);
    }
    CHECK(kernel::all_finite(span<const double>(nullptr, 0)));
    CHECK(kernel::measure(span<const half>(nullptr, 0)).norm == 0.0);
    CHECK_NOTHROW(kernel::scale_in_place(span<half>(), 2.0F));
    CHECK_NOTHROW(kernel::cast_into(none, no_floats));
  });
}

TEST_CASE("a null span that is not empty is refused by name", "[kernel]") {
  std::vector<float> floats(3, 7.0F);
  const span<const half> null_source(nullptr, 3);
  const span<half> null_destination(nullptr, 3);
  CHECK(contains(message_of([&] { (void)kernel::unscale_into(null_source, floats, 2.0F); }), "source is null"));
  CHECK(contains(message_of([&] { (void)kernel::unscale_into(null_source, floats, 2.0F); }), "3"));
  CHECK(contains(message_of([&] { (void)kernel::unscale_into(floats, null_destination, 2.0F); }), "destination is null"));
  CHECK_THROWS_AS(kernel::unscale_in_place(null_destination, 2.0F), std::invalid_argument);
  CHECK_THROWS_AS(kernel::scale_into(null_source, floats, 2.0F), std::invalid_argument);
  CHECK_THROWS_AS(kernel::scale_into(floats, null_destination, 2.0F), std::invalid_argument);
  CHECK_THROWS_AS(kernel::scale_in_place(null_destination, 2.0F), std::invalid_argument);
  CHECK_THROWS_AS(kernel::cast_into(null_source, floats), std::invalid_argument);
  CHECK_THROWS_AS(kernel::cast_into(floats, null_destination), std::invalid_argument);
  CHECK_THROWS_AS(kernel::all_finite(null_source), std::invalid_argument);
  CHECK_THROWS_AS(kernel::measure(null_source), std::invalid_argument);
  CHECK(floats == std::vector<float>(3, 7.0F));
}

TEST_CASE("sizes that differ are refused with both, and nothing has been written", "[kernel]") {
  const std::vector<half> source(5, half(2.0F));
  for (const std::size_t size : {0U, 4U, 6U, 100U}) {
    std::vector<float> destination(size, 7.0F);
    const std::string message = message_of([&] { (void)kernel::unscale_into(source, destination, 2.0F); });
    INFO(message);
    CHECK(contains(message, "5"));
    CHECK(contains(message, std::to_string(size)));
    CHECK_THROWS_AS(kernel::scale_into(source, destination, 2.0F), std::invalid_argument);
    CHECK_THROWS_AS(kernel::cast_into(source, destination), std::invalid_argument);
    CHECK(destination == std::vector<float>(size, 7.0F));
  }
}

TEST_CASE("a loss scale outside of [2^-126, 2^126] is refused by field and value, and nothing has been written", "[kernel]") {
  struct Refused {
    float scale;
    std::string text;
  };
  const bool flushing = support::flushes_subnormals();
  const Refused refused[] = {{0.0F, " 0;"},
                             {float_with(0x80000000), "0;"},
                             {-2.0F, " -2;"},
                             {float_with(0x7FC00000), " nan;"},
                             {float_with(0xFF800001), " nan;"},
                             {float_with(0x7F800000), " inf;"},
                             {float_with(0xFF800000), " -inf;"},
                             {0x1p127F, " 1.70141183e+38;"},
                             {0x1.000002p126F, " 8.50706019e+37;"},
                             {float_with(0x00400000), flushing ? " 0;" : " 5.87747175e-39;"},  // 2^-127, a subnormal
                             {float_with(0x007FFFFF), flushing ? " 0;" : " 1.17549421e-38;"}};
  for (const Refused& given : refused) {
    const float& scale = given.scale;
    std::vector<half> gradients(20, half(3.0F));
    std::vector<float> destination(20, 7.0F);
    const std::string message = message_of([&] { (void)kernel::unscale_into(gradients, destination, scale); });
    INFO(message << "; expected" << given.text);
    CHECK(contains(message, "loss_scale is "));
    CHECK(contains(message, given.text));
    CHECK_THROWS_AS(kernel::unscale_in_place(gradients, scale), std::invalid_argument);
    CHECK(destination == std::vector<float>(20, 7.0F));
    CHECK(gradients == std::vector<half>(20, half(3.0F)));
  }
  std::vector<double> values{1.0};
  CHECK_NOTHROW((void)kernel::unscale_in_place(values, 0x1p126F));
  CHECK_NOTHROW((void)kernel::unscale_in_place(values, 0x1p-126F));
  CHECK(values[0] == 1.0);
}

TEST_CASE("scale takes any finite factor and refuses others by value", "[kernel]") {
  std::vector<float> values{1.0F, -2.0F};
  CHECK(contains(message_of([&] { kernel::scale_in_place(values, float_with(0x7FC00000)); }), "factor is nan;"));
  CHECK(contains(message_of([&] { kernel::scale_in_place(values, float_with(0x7F800001)); }), "factor is nan;"));
  CHECK(contains(message_of([&] { kernel::scale_into(values, values, float_with(0x7F800000)); }), "factor is inf;"));
  CHECK(contains(message_of([&] { kernel::scale_into(values, values, float_with(0xFF800000)); }), "factor is -inf;"));
  CHECK(values == std::vector<float>{1.0F, -2.0F});
  kernel::scale_in_place(values, -0.5F);
  CHECK(values == std::vector<float>{-0.5F, 1.0F});
  kernel::scale_in_place(values, 0.0F);
  CHECK(bits_of(values) == std::vector<std::uint32_t>{0x80000000, 0});
  kernel::scale_in_place(values, std::numeric_limits<float>::max());
  CHECK(values[1] == 0.0F);
}

TEST_CASE("-0 stays -0 and Inf stays Inf of its sign", "[kernel]") {
  support::for_each_isa([&](headroom::Isa) {
    support::for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      using Format = headroom::detail::format_of<T>;
      using Bits = support::bits_type<T>;
      const std::vector<Bits> kept{Format::sign_mask, 0, Format::infinity_bits,
                                   static_cast<Bits>(Format::sign_mask | Format::infinity_bits)};
      INFO(support::name_of<T>());
      for (const float scale : {1.0F, 1024.0F, 1000.0F, 0x1p-126F}) {
        auto values = support::values_with<T>(kept);
        CHECK_FALSE(kernel::unscale_in_place(values, scale).finite);
        CHECK(bits_of(values) == kept);
        kernel::scale_in_place(values, scale);
        CHECK(bits_of(values) == kept);
      }
    });
  });
}

TEST_CASE("a report may not be dropped by mistake, and verbs that return none return none", "[kernel]") {
  using Floats = std::vector<float>&;
  static_assert(std::is_same_v<decltype(kernel::unscale_in_place(std::declval<Floats>(), 1.0F)), headroom::GradientReport>);
  static_assert(std::is_same_v<decltype(kernel::measure(std::declval<Floats>())), headroom::GradientNorm>);
  static_assert(std::is_same_v<decltype(kernel::all_finite(std::declval<Floats>())), bool>);
  static_assert(std::is_same_v<decltype(kernel::scale_in_place(std::declval<Floats>(), 1.0F)), void>);
  static_assert(std::is_same_v<decltype(kernel::cast_into(std::declval<Floats>(), std::declval<Floats>())), void>);
  SUCCEED("checked by the compiler");
}
