// Verbs on tensors with gaps and any order of dimensions reach every element once, and nothing
// between them.
#include <headroom/headroom.hpp>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/strided.hpp"

using namespace headroom;
using namespace headroom::detail;
using support::Strided;

namespace {

const ConstantLossScale two(2.0F);

}  // namespace

TEST_CASE("elements go to their own positions, and what lies between them stays") {
  // More elements than the buffer of a pass has
  std::vector<float> store(3000, -1.0F), expected = store;
  const Strided<float> tensor{store.data() + 900, {2, 300}, {1000, -3}};
  const Strided<float> there{expected.data() + 900, {2, 300}, {1000, -3}};
  std::vector<half> columns(600);
  const Strided<half> other{columns.data(), {2, 300}, {1, 2}};
  for (std::size_t i = 0; i < 600; ++i) {
    tensor.at(i) = static_cast<float>(2 * i);
    there.at(i) = static_cast<float>(i);
  }
  CHECK(two.unscale_in_place(tensor, parallel(2)).max_abs == 599.0);
  CHECK(store == expected);
  CHECK(measure(tensor).max_abs == 599.0);
  cast_into(tensor, other);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 600; ++i) wrong += other.at(i) == half(static_cast<float>(i)) ? 0 : 1;
  CHECK(wrong == 0);
  support::set_bits(store[901], binary32::infinity_bits);  // between the elements
  CHECK(all_finite(tensor));
  support::set_bits(store[900], binary32::infinity_bits);
  CHECK_FALSE(all_finite(tensor));
}

TEST_CASE("a tensor that repeats elements is read, and refused where it would be written") {
  std::vector<float> store = {1.0F, 2.0F, 3.0F};
  const Strided<float> broadcast{store.data(), {4, 3}, {0, 1}};
  CHECK(measure(broadcast).norm == Catch::Approx(std::sqrt(56.0)));
  CHECK(two.unscale(std::vector<Strided<float>>{}).grads.empty());
  std::vector<float> destination_store(12);
  cast_into(broadcast, Strided<float>{destination_store.data(), {4, 3}, {3, 1}});
  CHECK(destination_store == std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3});

  const std::string says_so = "repeats elements";
  CHECK_INVALID(says_so, two.scale_in_place(broadcast));
  CHECK_INVALID(says_so, cast_into(broadcast, broadcast));
  CHECK(store == std::vector<float>{1.0F, 2.0F, 3.0F});
  // A stride of 0 does not matter if there is only one element.
  CHECK(MESSAGE_OF(two.scale_in_place(Strided<float>{store.data(), {1, 3}, {0, 1}})) == "");
  // Elements 0, 2, 4, 3, 5, 7: distinct, but in no order that a view of a dense tensor has.
  std::vector<float> eight(8, 1.0F);
  CHECK_INVALID(says_so, two.scale_in_place(Strided<float>{eight.data(), {2, 3}, {3, 2}}));
}

TEST_CASE("no tensor that reaches an element twice is written, and every view of a dense one is") {
  // All shapes and strides of three dimensions within these bounds, compared with a set of the
  // elements that they reach.
  int written = 0;
  for (int code = 0; code < 3 * 3 * 3 * 17 * 17 * 17; ++code) {
    std::ptrdiff_t shape[3], stride[3];
    int rest = code;
    Layout layout;
    std::set<std::ptrdiff_t> reached;
    for (int i = 0; i < 3; ++i, rest /= 3) shape[i] = 1 + rest % 3;
    for (int i = 0; i < 3; ++i, rest /= 17) stride[i] = rest % 17 - 8;
    for (int i = 0; i < 3; ++i) layout.push(shape[i], stride[i]);
    for (std::ptrdiff_t a = 0; a < shape[0]; ++a) {
      for (std::ptrdiff_t b = 0; b < shape[1]; ++b) {
        for (std::ptrdiff_t c = 0; c < shape[2]; ++c)
          reached.insert(a * stride[0] + b * stride[1] + c * stride[2]);
      }
    }
    const bool repeats = static_cast<std::ptrdiff_t>(reached.size()) != layout.size();
    if (repeats && !LoopNest(layout, layout).may_repeat_elements())
      FAIL("not noticed: code " << code);
    written += LoopNest(layout, layout).may_repeat_elements() ? 0 : 1;
  }
  CHECK(written > 10000);
}

TEST_CASE("tensors without elements") {
  using Numbers = std::vector<std::ptrdiff_t>;
  for (const auto& [shape, strides] :
       {std::pair<Numbers, Numbers>{{0}, {1}}, {{0, 3}, {3, 1}}, {{3, 0}, {5, 2}}}) {
    const Strided<float> none{nullptr, shape, strides};
    two.scale_in_place(none);
    CHECK(measure(none).norm == 0.0);
    cast_into(none, none);
  }
}

TEST_CASE("a tensor of more dimensions than there may be is refused") {
  std::vector<float> store(1 << 17, 1.0F);
  std::vector<std::ptrdiff_t> shape(16, 2), strides(16);
  for (std::size_t d = 0; d < 16; ++d) strides[d] = std::ptrdiff_t{1} << d;
  CHECK(measure(Strided<float>{store.data(), shape, strides}).norm == 256.0);
  shape.push_back(2);
  strides.push_back(1 << 16);
  const std::string says = " has 17 dimensions, not counting those of one element; there may be 16";
  const Strided<float> tensor{store.data(), shape, strides};
  std::pair<std::vector<float>, Strided<float>> tree{{1.0F}, tensor};
  CHECK(MESSAGE_OF(two.scale_in_place(tree)) == "headroom: second" + says);
  CHECK(tree.first[0] == 1.0F);
  std::vector<half> flat(1 << 17);
  CHECK(MESSAGE_OF(cast_into(tensor, flat)) == "headroom: the source" + says);
  CHECK(MESSAGE_OF(cast_into(flat, tensor)) == "headroom: the destination" + says);
}

TEST_CASE(
    "a tensor type that cannot be made anew is changed in place, copied into, and moved through") {
  support::Bare<float> tensor{{2.0F, 4.0F}};
  CHECK(two.unscale_in_place(tensor).max_abs == 2.0);
  support::Bare<half> halves{{half(0.0F), half(0.0F)}};
  cast_into(tensor, halves);
  CHECK(halves.elements == std::vector<half>{half(1.0F), half(2.0F)});
  const auto doubled = two.scale(tensor);
  CHECK(doubled.elements == std::vector<float>{2.0F, 4.0F});
  CHECK(tensor.elements == std::vector<float>{1.0F, 2.0F});
  CHECK_FALSE(find_nonfinite(std::vector<support::Bare<float>>{tensor}).has_value());
}
