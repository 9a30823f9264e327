// Flat leaves that match tensors of more dimensions, and those that do not.
#include <headroom/headroom.hpp>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/strided.hpp"

using namespace headroom;
using support::Strided;

namespace {

using Floats = std::vector<float>;
const ConstantLossScale by_two(2.0F);

/// Memory filled with 1, 2, 3, ... and tensors in it.
struct Memory {
  Floats values = Floats(64);
  Memory() { std::iota(values.begin(), values.end(), 1.0F); }
  Strided<float> tensor(std::vector<std::ptrdiff_t> shape, std::vector<std::ptrdiff_t> strides,
                        std::size_t first = 0) {
    return {values.data() + first, std::move(shape), std::move(strides)};
  }
};

template <class Source, class Destination>
void check_differ(const Memory& memory, const Source& source, Destination destination,
                  const std::string& words) {
  const Floats before = memory.values;
  CHECK_INVALID("the trees differ: " + words, cast_into(source, destination));
  CHECK_INVALID("the trees differ: " + words, by_two.unscale_into(source, destination));
  CHECK(memory.values == before);
}

}  // namespace

TEST_CASE("a flat leaf has the elements of a matrix in the order in which they lie in memory") {
  Memory memory;
  const auto by_rows = memory.tensor({2, 3}, {3, 1}), by_columns = memory.tensor({2, 3}, {1, 2});
  const Floats in_memory = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  Floats flat(6);
  cast_into(by_rows, flat);
  CHECK(flat == in_memory);
  cast_into(by_columns, flat);
  CHECK(flat == in_memory);

  Memory other;
  (void)by_two.unscale_into(flat, other.tensor({2, 3}, {1, 2}, 10));
  CHECK(Floats(other.values.begin() + 10, other.values.begin() + 16) ==
        Floats{0.5F, 1.0F, 1.5F, 2.0F, 2.5F, 3.0F});
  // From matrix to matrix, elements keep their indices.
  cast_into(by_rows, other.tensor({2, 3}, {1, 2}, 20));
  CHECK(Floats(other.values.begin() + 20, other.values.begin() + 26) ==
        Floats{1.0F, 4.0F, 2.0F, 5.0F, 3.0F, 6.0F});
  // A matrix of one column has as many dimensions as a vector, and may have gaps.
  cast_into(memory.tensor({6, 1}, {7, 1}), flat);
  CHECK(flat == Floats{1.0F, 8.0F, 15.0F, 22.0F, 29.0F, 36.0F});
}

TEST_CASE("a flat leaf does not stand for a tensor with gaps, or backwards") {
  Memory memory;
  const Floats flat(6);
  Floats destination(6);
  const std::string words = "the source is ";
  for (const auto& strides : std::vector<std::vector<std::ptrdiff_t>>{
           {4, 1}, {1, 3}, {6, 2}, {3, -1}, {-3, -1}, {0, 1}}) {
    const auto with_gaps = memory.tensor({2, 3}, strides, 10);
    check_differ(memory, with_gaps, span<float>(destination), words + "2x3, the destination is 6");
    if (strides[0] != 0) check_differ(memory, flat, with_gaps, words + "6, the destination is 2x3");
    CHECK(destination == Floats(6));
  }
  // a flat leaf with gaps does not match a matrix either
  check_differ(memory, memory.tensor({6}, {2}), memory.tensor({2, 3}, {3, 1}, 20),
               words + "6, the destination is 2x3");
  check_differ(memory, memory.tensor({2, 3}, {3, 1}), memory.tensor({6}, {2}, 20),
               words + "2x3, the destination is 6");
}

TEST_CASE("tensors of different shapes, or sizes") {
  Memory memory;
  const auto by_rows = memory.tensor({2, 3}, {3, 1}), empty = memory.tensor({0, 3}, {3, 1}, 20);
  const std::string words = "the source is 2x3, the destination is ";
  check_differ(memory, by_rows, memory.tensor({3, 2}, {2, 1}, 20), words + "3x2");
  check_differ(memory, by_rows, memory.tensor({2, 4}, {4, 1}, 20), words + "2x4");
  check_differ(memory, by_rows, memory.tensor({2, 3, 2}, {6, 2, 1}, 20), words + "2x3x2");
  check_differ(memory, by_rows, empty, words + "0x3");
  check_differ(memory, empty, by_rows, "the source is 0x3, the destination is 2x3");
  check_differ(memory, Floats(7), by_rows, "the source is 7, the destination is 2x3");
  check_differ(memory, memory.tensor({1, 1}, {1, 1}), empty,
               "the source is scalar, the destination is 0x3");
  CHECK(MESSAGE_OF(cast_into(empty, memory.tensor({2, 0}, {1, 1}))).empty());
}
