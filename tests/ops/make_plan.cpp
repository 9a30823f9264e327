// Trees that do not match, and leaves that cannot be walked: refused with the path, before anything is written.
#include <headroom/headroom.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using headroom::half;
using headroom::span;
using support::message_of;

namespace {

using Floats = std::vector<float>;
const headroom::ConstantLossScale two(2.0F);

/// The bits of every leaf, one after the other.
template <class Tree>
std::vector<std::uint32_t> bits_of_tree(const Tree& tree) {
  std::vector<std::uint32_t> bits;
  headroom::for_each_leaf(tree, [&](const auto& leaf) {
    if constexpr (std::is_same_v<std::decay_t<decltype(leaf)>, float>) {
      bits.push_back(support::bits_of(leaf));
    } else {
      for (const float& element : leaf) bits.push_back(support::bits_of(element));
    }
  });
  return bits;
}

/// No verb takes `source` into `destination`; the message ends with `words`, and the destination is as before.
template <class Source, class Destination>
void check_differ(const Source& source, Destination& destination, const std::string& words) {
  const auto before = bits_of_tree(destination);
  CHECK_THAT(message_of([&] { headroom::cast_into(source, destination); }), EndsWith("the trees differ" + words));
  CHECK_THAT(message_of([&] { (void)two.unscale_into(headroom::parallel(2), source, destination); }), EndsWith(words));
  CHECK(bits_of_tree(destination) == before);
}
template <class Source, class Destination>
void check_differ(const Source& source, Destination&& destination, const std::string& words) {
  check_differ(source, destination, words);
}

}  // namespace

TEST_CASE("leaves of different sizes") {
  check_differ(Floats(3), Floats(2), ": source has 3 elements, destination has 2");
  check_differ(std::vector<half>(3), Floats(4), ": source has 3 elements, destination has 4");
  check_differ(Floats(0), Floats(1), ": source has 0 elements, destination has 1");
  check_differ(std::array<float, 2>{}, Floats(3), ": source has 2 elements, destination has 3");
}

TEST_CASE("the last leaf differs: the first are untouched all the same") {
  check_differ(std::vector<Floats>{{1.0F, 2.0F}, {3.0F}, {4.0F}}, std::vector<Floats>{{5.0F, 6.0F}, {7.0F}, {8.0F, 9.0F}},
               " at [2]: source has 1 elements, destination has 2");
  check_differ(std::make_tuple(1.0F, Floats(70000, 1.0F), Floats(1)), std::make_tuple(2.0F, Floats(70000, 3.0F), Floats(2)),
               " at <2>: source has 1 elements, destination has 2");
  const auto source = support::network_of(1.0F);
  auto destination = support::network_of(2.0F);
  destination.heads["encoder"].pop_back();
  check_differ(source, destination, " at heads[\"encoder\"]: source has 4 elements, destination has 3");
}

TEST_CASE("sequences of different lengths") {
  check_differ(std::vector<Floats>(2), std::vector<Floats>(3, {1.0F}), ": source has 2 elements, destination has 3");
  check_differ(std::list<float>{1.0F}, std::list<float>{}, ": source has 1 elements, destination has 0");
  auto source = support::network_of(1.0F), destination = support::network_of(2.0F);
  destination.layers.pop_back();
  check_differ(source, destination, " at layers: source has 2 elements, destination has 1");
}

TEST_CASE("maps of different keys") {
  using Map = std::map<std::string, Floats>;
  check_differ(Map{{"a", {1.0F}}, {"b", {1.0F}}}, Map{{"a", {2.0F}}, {"c", {2.0F}}},
               " at [\"b\"]: the destination does not have this key");
  check_differ(Map{{"a", {}}}, Map{{"a", {}}, {"b", {1.0F}}}, ": source has 1 elements, destination has 2");
  check_differ(std::unordered_map<int, float>{{1, 1.0F}}, std::unordered_map<int, float>{{2, 3.0F}},
               " at [1]: the destination does not have this key");
}

TEST_CASE("maps of the same keys in another order match") {
  const std::map<std::string, float> source = {{"a", 1.0F}, {"b", 2.0F}, {"c", 3.0F}};
  std::map<std::string, float, std::greater<std::string>> backwards = {{"a", 0.0F}, {"b", 0.0F}, {"c", 0.0F}};
  headroom::cast_into(source, backwards);
  CHECK(backwards.at("a") == 1.0F);
  CHECK(backwards.at("c") == 3.0F);
  std::unordered_map<std::string, half> hashed = {{"c", half(0.0F)}, {"a", half(0.0F)}, {"b", half(0.0F)}};
  CHECK(two.unscale_into(source, hashed).max_abs == 1.5);
  CHECK(hashed.at("c") == half(1.5F));
}

TEST_CASE("variants that hold different alternatives") {
  using Either = std::variant<float, Floats, int>;
  check_differ(std::vector<Either>{1.0F, Floats{1.0F}}, std::vector<Either>{2.0F, 3.0F},
               " at [1]: source holds alternative 1, destination holds 0");
  check_differ(Either{1}, Either{1.0F}, ": source holds alternative 2, destination holds 0");
  check_differ(Either{1.0F}, Either{Floats{1.0F}}, ": source holds alternative 0, destination holds 1");
  std::vector<Either> destination = {2.0F, Floats{3.0F}};
  headroom::cast_into(std::vector<Either>{1.0F, Floats{5.0F}}, destination);
  CHECK(std::get<Floats>(destination[1]) == Floats{5.0F});
}

namespace {

/// Throws when it is copied: how a variant loses its value.
struct Throws {
  Throws() = default;
  Throws(const Throws&) { throw 1; }
  Throws& operator=(const Throws&) = default;
};
using Loses = std::variant<float, Floats, Throws>;

}  // namespace

template <>
struct headroom::tree_traits<Throws> {
  static constexpr bool holds_only_integers = true;
};

TEST_CASE("variants without a value are named") {
  std::pair<float, Loses> tree{1.0F, 2.0F}, full = tree;
  try {
    tree.second.emplace<Throws>(Throws());
  } catch (int) {
  }
  REQUIRE(tree.second.valueless_by_exception());
  const auto says_so = ContainsSubstring("second is a variant that has lost its value");
  CHECK_THAT(message_of([&] { two.scale_in_place(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale_in_place(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::measure(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::all_finite(headroom::parallel(2), tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::leaf_count(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::find_nonfinite(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale(std::cref(tree)); }), says_so);
  CHECK_THAT(message_of([&] { headroom::cast_into(tree, full); }), says_so);
  CHECK_THAT(message_of([&] { headroom::cast_into(full, tree); }), says_so);
  CHECK_THAT(message_of([&] { headroom::cast_into(tree, tree); }), says_so);
  CHECK(tree.first == 1.0F);
}

TEST_CASE("pointers of which one is empty") {
  using Owner = std::unique_ptr<Floats>;
  check_differ(Owner(), std::make_unique<Floats>(2, 1.0F), ": the source is empty");
  check_differ(std::make_unique<Floats>(2), Owner(), ": the destination is empty");
  check_differ(std::make_pair(1.0F, std::optional<float>(1.0F)), std::make_pair(2.0F, std::optional<float>()),
               " at second: the destination is empty");
  Owner nothing;
  headroom::cast_into(Owner(), nothing);
  CHECK(nothing == nullptr);
}

TEST_CASE("a pointer to a tree stands for the tree") {
  Floats destination(2);
  headroom::cast_into(std::make_unique<Floats>(2, 1.5F), destination);
  CHECK(destination == Floats{1.5F, 1.5F});
  headroom::cast_into(std::vector<half>{half(1.0F), half(2.0F)}, std::ref(destination));
  CHECK(destination == Floats{1.0F, 2.0F});
  check_differ(std::unique_ptr<Floats>(), destination, ": the source is empty");
}

TEST_CASE("trees of other containers match where their structure does") {
  std::list<std::array<float, 2>> destination(2);
  headroom::cast_into(std::vector<std::vector<half>>{{half(1.0F), half(2.0F)}, {half(3.0F), half(4.0F)}}, destination);
  CHECK(destination.front() == std::array<float, 2>{1.0F, 2.0F});
  CHECK(destination.back() == std::array<float, 2>{3.0F, 4.0F});
}

TEST_CASE("null spans are named, unless they are empty") {
  std::vector<span<float>> tree(3);
  CHECK(message_of([&] { two.scale_in_place(tree); }) == "");
  Floats values = {1.0F, 2.0F};
  tree[0] = values;
  tree[2] = {nullptr, 5};
  const auto says_so = ContainsSubstring("[2] is null, with a size of 5");
  CHECK_THAT(message_of([&] { two.scale_in_place(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale_in_place(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale_and_clip_in_place(tree, 1.0); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::all_finite(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::measure(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::global_norm(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::clip_by_global_norm(tree, 1.0); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::cast<half>(tree); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::find_nonfinite(tree); }), says_so);
  CHECK(values == Floats{1.0F, 2.0F});

  Floats full(5, 3.0F);
  std::vector<Floats> others = {{1.0F, 1.0F}, {}, full};
  CHECK_THAT(message_of([&] { headroom::cast_into(tree, others); }),
             ContainsSubstring("the source's [2] is null, with a size of 5"));
  CHECK_THAT(message_of([&] { headroom::cast_into(others, tree); }), ContainsSubstring("the destination's [2] is null"));
  CHECK(values == Floats{1.0F, 2.0F});
  CHECK(others[0] == Floats{1.0F, 1.0F});
  CHECK_THAT(message_of([] { (void)headroom::measure(span<float>(nullptr, 1)); }), ContainsSubstring("the tree is null"));
  const span<float> null(nullptr, 5);
  CHECK(message_of([&] { headroom::cast_into(null, full); }) == "headroom: the source is null, with a size of 5");
  CHECK(message_of([&] { (void)two.unscale_into(full, null); }) == "headroom: the destination is null, with a size of 5");
}
