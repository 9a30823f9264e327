// Shapes and strides.
#include <headroom/tree/layout.hpp>

#include "support/catch.hpp"

using headroom::Layout;

TEST_CASE("two layouts of all the dimensions there can be have the same shape, whatever their strides") {
  Layout a, b, longer;
  for (int i = 0; i < Layout::max_rank; ++i) {
    a.push(2, 1 + i);
    b.push(2, 100 + i);
    longer.push(i + 1 == Layout::max_rank ? 3 : 2, 1 + i);
  }
  CHECK(a.rank() == Layout::max_rank);
  CHECK(a.same_shape(b));
  CHECK(b.same_shape(a));
  CHECK_FALSE(a.same_shape(longer));
  CHECK_FALSE(a.same_shape(Layout()));
}
