// Source and destination of a kernel: the same memory, or memory that does not meet.
#include <headroom/headroom.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::bfloat16;
using headroom::half;
using headroom::span;
using support::message_of;

namespace {

using Floats = std::vector<float>;

template <class T>
span<T> as(Floats& memory, std::size_t first_byte, std::size_t size) {
  return {reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(memory.data()) + first_byte), size};
}

}  // namespace

TEST_CASE("spans given to kernels") {
  namespace kernel = headroom::kernel;
  Floats memory(100, 1.5F);
  const Floats before = memory;
  const auto says_so = ContainsSubstring("source and destination overlap");
  const auto check = [&](auto source, auto destination) {
    CHECK_THAT(message_of([&] { kernel::scale_into(source, destination, 2.0F); }), says_so);
    CHECK_THAT(message_of([&] { (void)kernel::unscale_into(source, destination, 2.0F); }), says_so);
    CHECK_THAT(message_of([&] { kernel::cast_into(source, destination); }), says_so);
    CHECK(memory == before);
  };
  check(as<half>(memory, 0, 50), as<float>(memory, 0, 50));
  check(as<float>(memory, 0, 50), as<float>(memory, 4, 50));
  check(as<float>(memory, 4, 50), as<float>(memory, 0, 50));
  check(as<float>(memory, 0, 50), as<half>(memory, 199, 50));
  kernel::cast_into(as<float>(memory, 0, 50), as<float>(memory, 200, 50));
  CHECK(memory[99] == 1.5F);
  kernel::cast_into(as<half>(memory, 0, 50), as<bfloat16>(memory, 0, 50));
  kernel::cast_into(as<half>(memory, 0, 0), as<float>(memory, 0, 0));
}
