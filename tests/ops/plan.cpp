// The plan of a verb, and trees that verbs refuse with the path, before anything is written.
#include <headroom/headroom.hpp>

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"
#include "support/strided.hpp"

using namespace headroom;
using namespace headroom::detail;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using support::Strided;

namespace {

const PieceKind halves_to_floats{{}, 2, 4}, floats{{}, 4, 4};

LoopNest nest_of(std::vector<std::ptrdiff_t> shape, std::vector<std::ptrdiff_t> strides) {
  Layout layout;
  for (std::size_t i = 0; i < shape.size(); ++i) layout.push(shape[i], strides[i]);
  return {layout, layout};
}
/// A plan that the test writes leaf by leaf.
struct PlannedLeaves : Plan {
  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    Writer writer(*this);
    writer.add(source, destination, size, kind);
    writer.close();
  }
  void add(void* memory, std::size_t size, const LoopNest& nest) {
    Writer writer(*this);
    writer.add(memory, memory, size, nest, floats);
    writer.close();
  }
};
/// The number of pieces of each run.
std::vector<std::ptrdiff_t> run_lengths(const Plan& plan) {
  std::vector<std::ptrdiff_t> lengths;
  for (const Plan::Segment& run : plan.segments) lengths.push_back(plan.end(run) - plan.begin(run));
  return lengths;
}

}  // namespace

TEST_CASE(
    "a leaf with strides is a run of its own, with its loop nest; one without gaps is a piece like "
    "others") {
  float memory[64] = {};
  PlannedLeaves plan;
  plan.add(memory, memory, 4, floats);
  plan.add(memory, 6, nest_of({2, 3}, {8, 1}));
  plan.add(memory, 6, nest_of({2, 3}, {16, 2}));
  plan.add(memory, 6, nest_of({2, 3}, {3, 1}));
  plan.add(memory, memory, 5, floats);
  plan.add(memory, 0, nest_of({0, 3}, {16, 2}));  // no elements, so no gaps
  CHECK(run_lengths(plan) == std::vector<std::ptrdiff_t>{1, 1, 1, 3});
  const Plan::Segment* const runs = plan.segments.begin();
  CHECK(runs[0].depth == 0);
  CHECK(runs[3].depth == 0);
  for (const std::ptrdiff_t i : {1, 2}) {
    REQUIRE(runs[i].depth == 2);
    const Dimension* const dimensions = plan.dimensions.begin() + runs[i].first;
    CHECK(dimensions[0].size == 2);
    CHECK(dimensions[0].source_stride == 8 * i);
    CHECK(dimensions[1].size == 3);
    CHECK(dimensions[1].destination_stride == i);
  }
}

TEST_CASE("elements are counted, and the first of them is found") {
  float memory[64] = {};
  PlannedLeaves plan;
  CHECK(plan.elements() == 0);
  plan.add(memory + 1, nullptr, 0, floats);
  CHECK(plan.first_element() == nullptr);
  plan.add(memory, memory + 32, 10, halves_to_floats);
  plan.add(memory, 6, nest_of({2, 3}, {8, 1}));
  plan.add(memory, nullptr, 1, floats);
  CHECK(plan.elements() == 17);
  CHECK(plan.bytes() == 10 * 6);  // the others are in place or for reading
  CHECK(plan.first_element() == memory);
}

TEST_CASE("neighbours of one kind form a run, in the order in which they came, however many") {
  PlannedLeaves plan;
  const std::vector<unsigned char> source(10000);
  std::vector<unsigned char> destination(10000);
  for (std::size_t i = 0; i < 10000; ++i)
    plan.add(&source[i], &destination[i], i, i % 3 == 0 ? floats : halves_to_floats);
  CHECK(plan.pieces.size() == 10000);
  CHECK(plan.segments.size() == 6667);
  std::size_t wrong = 0, at = 0;
  for (const Plan::Segment& run : plan.segments) {
    wrong += run.depth == 0 ? 0 : 1;
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); ++piece, ++at) {
      wrong += piece->source == &source[at] && piece->destination == &destination[at] &&
                       piece->size == at && run.kind == (at % 3 == 0 ? &floats : &halves_to_floats)
                   ? 0
                   : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(at == 10000);
}

namespace {

using Floats = std::vector<float>;
const ConstantLossScale two(2.0F);

/// The bits of every leaf, concatenated.
template <class Tree>
std::vector<std::uint32_t> bits_of_tree(const Tree& tree) {
  std::vector<std::uint32_t> bits;
  for_each_leaf(tree, [&](const auto& leaf) {
    if constexpr (std::is_same_v<std::decay_t<decltype(leaf)>, float>) {
      bits.push_back(support::bits_of(leaf));
    } else {
      for (const float& element : leaf) bits.push_back(support::bits_of(element));
    }
  });
  return bits;
}

/// Checks that every verb refuses `source` and `destination` with a message that ends with `words`,
/// and writes nothing.
template <class Source, class Destination>
void check_differ(const Source& source, Destination&& destination, const std::string& words) {
  const auto before = bits_of_tree(destination);
  CHECK_THAT(MESSAGE_OF(cast_into(source, destination)), EndsWith("the trees differ" + words));
  CHECK_THAT(MESSAGE_OF(two.unscale_into(source, destination, parallel(2))), EndsWith(words));
  CHECK(bits_of_tree(destination) == before);
}

}  // namespace

TEST_CASE("the last leaf differs: the first are untouched all the same") {
  check_differ(std::vector<Floats>{{1.0F, 2.0F}, {3.0F}, {4.0F}},
               std::vector<Floats>{{5.0F, 6.0F}, {7.0F}, {8.0F, 9.0F}},
               " at [2]: source has 1 elements, destination has 2");
  check_differ(std::vector<half>(3), Floats(4), ": source has 3 elements, destination has 4");
  check_differ(std::map<int, float>{{1, 1.0F}}, std::map<int, float>{{2, 3.0F}},
               " at [1]: the destination does not have this key");
  check_differ(std::make_tuple(1.0F, Floats(70000, 1.0F), Floats(1)),
               std::make_tuple(2.0F, Floats(70000, 3.0F), Floats(2)),
               " at <2>: source has 1 elements, destination has 2");
  const auto source = support::network_of(1.0F);
  auto destination = support::network_of(2.0F);
  destination.heads["encoder"].pop_back();
  check_differ(source, destination,
               " at heads[\"encoder\"]: source has 4 elements, destination has 3");
}

TEST_CASE("null spans are named, unless they are empty") {
  std::vector<span<float>> tree(3);
  CHECK(MESSAGE_OF(two.scale_in_place(tree)) == "");
  Floats values = {1.0F, 2.0F};
  tree[0] = values;
  tree[2] = {nullptr, 5};
  const std::string says_so = "[2] is null, with a size of 5";
  CHECK_INVALID(says_so, two.unscale(tree));
  CHECK_INVALID(says_so, two.unscale_in_place(tree));
  CHECK_INVALID(says_so, measure(tree));
  Floats full(5, 3.0F);
  std::vector<Floats> others = {{1.0F, 1.0F}, {}, full};
  CHECK_INVALID("the source's [2] is null, with a size of 5", cast_into(tree, others));
  CHECK_INVALID("the destination's [2] is null", cast_into(others, tree));
  CHECK(values == Floats{1.0F, 2.0F});
  CHECK(others[0] == Floats{1.0F, 1.0F});
  const span<float> null(nullptr, 5);
  CHECK_INVALID("the tree is null", measure(null));
  CHECK(MESSAGE_OF(cast_into(null, full)) == "headroom: the source is null, with a size of 5");
  CHECK(MESSAGE_OF(two.unscale_into(full, null)) ==
        "headroom: the destination is null, with a size of 5");
}

// ---- overlap ----

namespace {

/// Tensors with and without a statement of whether copies share elements.
struct Silent {
  float* begin;
  std::size_t n;
};
struct Owning : Silent {};

template <class T>
struct traits_of_silent {
  using value_type = float;
  static float* data(T& tensor) { return tensor.begin; }
  static const float* data(const T& tensor) { return tensor.begin; }
  static std::size_t size(const T& tensor) { return tensor.n; }
};

}  // namespace

template <>
struct headroom::tensor_traits<Silent> : traits_of_silent<Silent> {};
template <>
struct headroom::tensor_traits<Owning> : traits_of_silent<Owning> {
  static constexpr bool is_view = false;
};

namespace {

template <class Source, class Destination>
void check_overlap(const Floats& memory, const Source& source, Destination destination,
                   const std::string& path = "the tree") {
  const Floats before = memory;
  const std::string says_so = path + ": source and destination overlap";
  CHECK_INVALID(says_so, cast_into(source, destination));
  CHECK_INVALID(says_so, two.unscale_into(source, destination, parallel(3)));
  CHECK(memory == before);
}
template <class T>
span<T> as(Floats& memory, std::size_t first_byte, std::size_t size) {
  return {reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(memory.data()) + first_byte), size};
}
Floats counted(std::size_t n) {
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

}  // namespace

TEST_CASE("a leaf that meets its own destination in part") {
  Floats memory = counted(100);
  check_overlap(memory, as<float>(memory, 0, 50), as<float>(memory, 4, 50));
  check_overlap(memory, as<float>(memory, 4, 50), as<float>(memory, 0, 50));
  check_overlap(memory, as<float>(memory, 0, 50), as<float>(memory, 196, 50));
  check_overlap(memory, as<float>(memory, 196, 50), as<float>(memory, 0, 50));
  // The same first address, but larger elements
  check_overlap(memory, as<half>(memory, 0, 50), as<float>(memory, 0, 50));
  check_overlap(memory, as<double>(memory, 0, 25), as<float>(memory, 196, 25));
  check_overlap(memory, std::make_pair(1.0F, as<half>(memory, 0, 50)),
                std::make_pair(1.0F, as<float>(memory, 0, 50)), "second");
}

TEST_CASE("a leaf that does not, or is its own destination") {
  Floats memory = counted(100);
  const Floats before = memory;
  CHECK(two.unscale_into(as<float>(memory, 0, 50), as<float>(memory, 200, 50)).max_abs == 25.0);
  CHECK(two.unscale_into(as<float>(memory, 200, 50), as<float>(memory, 0, 50)).max_abs == 12.5);
  CHECK(two.unscale_into(as<half>(memory, 0, 25), as<float>(memory, 50, 25)).finite);
  CHECK(two.unscale_into(as<float>(memory, 0, 0), as<float>(memory, 0, 0)).finite);
  memory = before;
  CHECK(two.unscale_into(memory, memory).max_abs == 50.0);
  CHECK(memory == two.unscale(before).grads);
  const auto halves = cast<half>(before);
  std::vector<half> reused = halves;
  cast_into(reused, span<bfloat16>(reinterpret_cast<bfloat16*>(reused.data()), reused.size()));
  CHECK(std::memcmp(reused.data(), cast<bfloat16>(halves).data(), 200) == 0);
}

TEST_CASE("a matrix and its transpose; parts of one matrix lie between each other") {
  Floats memory = counted(36);
  float* const data = memory.data();
  const Strided<float> matrix{data, {6, 6}, {6, 1}}, transpose{data, {6, 6}, {1, 6}};
  check_overlap(memory, matrix, transpose);
  check_overlap(memory, Strided<float>{data, {2, 3, 3}, {9, 3, 1}},
                Strided<float>{data, {2, 3, 3}, {9, 1, 3}});
  check_overlap(memory, Strided<half>{reinterpret_cast<half*>(data), {18}, {2}},
                Strided<float>{data, {18}, {2}});
  check_overlap(memory, Strided<float>{data, {18}, {2}}, Strided<float>{data, {18}, {1}});
  // Flat and dense
  check_overlap(memory, Strided<float>{data, {5, 6}, {6, 1}}, span<float>(data + 6, 30));
  cast_into(Strided<float>{data, {6, 2}, {6, 1}}, Strided<float>{data + 2, {6, 2}, {6, 1}});
  CHECK(memory[2] == 1.0F);
  CHECK(memory[33] == 32.0F);
  cast_into(Strided<float>{data, {18}, {2}}, Strided<float>{data + 1, {18}, {2}});
  CHECK(memory[35] == memory[34]);
  CHECK(two.unscale_into(transpose, transpose).max_abs == 17.5);
  CHECK(two.unscale_into(matrix, span<float>(memory)).finite);
}

TEST_CASE("a leaf that is in a tree twice is not written twice") {
  const auto shared = std::make_shared<Floats>(Floats{8.0F, 8.0F}),
             other = std::make_shared<Floats>(Floats{2.0F});
  const std::vector<std::shared_ptr<Floats>> tied{shared, other, shared}, apart{shared, other},
      reversed{other, shared};
  const std::string message = "[0] and [2] share elements, which would be worked on twice";
  CHECK_INVALID(message, unscale_in_place(tied, 2.0F));
  CHECK_INVALID(message, unscale_in_place(tied, 2.0F, parallel(2)));
  CHECK_INVALID(message, scale_in_place(tied, 2.0));
  CHECK_INVALID(message, clip_by_global_norm(tied, 1.0));
  CHECK(*shared == Floats{8.0F, 8.0F});
  CHECK(measure(tied).max_abs == 8.0);  // reading a leaf twice is allowed
  (void)unscale_in_place(apart, 2.0F);
  (void)unscale_in_place(reversed, 2.0F);
  CHECK(*shared == Floats{2.0F, 2.0F});
  CHECK(*other == Floats{0.5F});

  Floats memory(6, 4.0F);
  const Strided<float> even{memory.data(), {3}, {2}}, odd{memory.data() + 1, {3}, {2}},
      first{memory.data(), {3}, {1}};
  CHECK_INVALID("[1] and [2] share elements",
                scale_in_place(std::vector<Strided<float>>{odd, even, first}, 2.0));
  scale_in_place(std::vector<Strided<float>>{odd, even}, 0.5);
  CHECK(memory == Floats(6, 2.0F));
}

TEST_CASE("leaves without elements may start at one address, whatever the order of the others") {
  Floats memory(6, 4.0F);
  float* const data = memory.data();
  const std::vector<span<float>> tree{{data + 3, 3}, {data, 0}, {nullptr, 0}, {data, 3},
                                      {data + 3, 0}, {data, 0}, {nullptr, 0}};
  CHECK(MESSAGE_OF(scale_in_place(tree, 0.5)) == "");
  CHECK(memory == Floats(6, 2.0F));
  const std::vector<span<float>> tied{{data + 3, 3}, {data + 3, 0}, {data, 0}, {data + 3, 3}};
  CHECK_THAT(MESSAGE_OF(scale_in_place(tied, 0.5)),
             StartsWith("headroom: [0] and [3] share elements"));
  CHECK(memory == Floats(6, 2.0F));
}

TEST_CASE(
    "a tensor that does not say whether it is a view is not written twice; one that owns its "
    "elements is believed") {
  static_assert(owns_elements_v<std::vector<Floats>> && !owns_elements_v<std::vector<span<float>>>);
  static_assert(owns_elements_v<std::tuple<float, float[2], std::array<half, 3>>>);
  Floats memory(6, 4.0F);
  std::vector<Silent> tied{{memory.data(), 6}, {memory.data(), 6}};
  CHECK_INVALID("[0] and [1] share elements", two.unscale_in_place(tied));
  CHECK(memory == Floats(6, 4.0F));
  std::vector<Owning> owning{{{memory.data(), 6}}, {{memory.data(), 6}}};
  (void)two.unscale_in_place(owning);
  CHECK(memory == Floats(6, 1.0F));
}

TEST_CASE("a list keeps its elements while it grows") {
  for (const std::size_t n : {0U, 1U, 4U, 5U, 16U, 17U, 10'000U}) {
    Buffer<std::size_t, 4> list;
    for (std::size_t i = 0; i < n; ++i) list.push_back(i);
    REQUIRE(list.size() == n);
    if (n > 4)
      CHECK(static_cast<std::size_t>(list.limit() - list.begin()) * sizeof n <=
            malloc_usable_size(list.begin()));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += list.begin()[i] == i ? 0 : 1;
    CHECK(wrong == 0);
  }
}
