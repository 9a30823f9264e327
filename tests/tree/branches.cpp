// Two trees side by side, of each kind of branch: leaves meet leaves in the same place, and what differs is named.
#include <headroom/tree/branches.hpp>

#include <headroom/tree/make_like.hpp>
#include <headroom/tree/visit.hpp>

#include <array>
#include <deque>
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

#include "support/catch.hpp"
#include "support/errors.hpp"

using headroom::detail::Path;
using support::message_of;

namespace {

/// The pairs of numbers in two trees of scalars: "path:source/destination".
struct Pairs {
  std::string text;
  template <class Source, class Destination>
  void operator()(const Path& path, const Source& source, const Destination& destination) {
    text += path.text() + ':' + std::to_string(static_cast<int>(source)) + '/' + std::to_string(static_cast<int>(destination)) +
            ' ';
  }
};
template <class Source, class Destination>
std::string pairs_of(const Source& source, const Destination& destination) {
  Pairs pairs;
  headroom::detail::walk(Path(), pairs, source, destination);
  return pairs.text;
}
template <class Source, class Destination>
void check_differ(const Source& source, const Destination& destination, const std::string& message) {
  CHECK(message_of([&] { (void)pairs_of(source, destination); }) == "headroom: " + message);
}

/// Its copies throw: how a variant loses its value.
struct Throws {
  Throws() = default;
  Throws(const Throws&) { headroom::detail::throw_invalid_argument({"copied"}); }
  Throws& operator=(const Throws&) = default;
  float value = 0.0F;
  HEADROOM_TREE(Throws, value)
};

/// Its address is not what & says.
struct Proxied {
  float value = 0.0F;
  const float* operator&() const { return nullptr; }
  HEADROOM_TREE(Proxied, value)
};

/// A container of a user's own, with no more than a sequence needs.
template <class T>
class Ring {
 public:
  Ring() = default;
  explicit Ring(std::deque<T> elements) : elements_(std::move(elements)) {}
  void push_back(T element) { elements_.push_back(std::move(element)); }
  [[nodiscard]] auto begin() { return elements_.begin(); }
  [[nodiscard]] auto begin() const { return elements_.begin(); }
  [[nodiscard]] auto end() { return elements_.end(); }
  [[nodiscard]] auto end() const { return elements_.end(); }
  [[nodiscard]] std::size_t size() const { return elements_.size(); }

 private:
  std::deque<T> elements_;
};
/// One that cannot grow, and does not begin with its size.
template <class T>
struct Block : std::vector<T> {
  using std::vector<T>::vector;
  void push_back(T) = delete;
};

}  // namespace

template <class T>
struct headroom::tree_traits<Ring<T>> {
  static constexpr branch_kind kind = branch_kind::sequence;
  template <class To>
  using rebuilt = Ring<To>;
};
template <class T>
struct headroom::tree_traits<Block<T>> {
  static constexpr branch_kind kind = branch_kind::sequence;
  template <class To>
  using rebuilt = Block<To>;
};

TEST_CASE("sequences of different containers, element by element") {
  CHECK(pairs_of(std::list<float>{1, 2}, std::deque<double>{3, 4}) == "[0]:1/3 [1]:2/4 ");
  const float array[2][1] = {{1}, {2}};
  CHECK(pairs_of(std::list<std::list<float>>{{1}, {2}}, std::array<std::list<float>, 2>{{{3}, {4}}}) ==
        "[0][0]:1/3 [1][0]:2/4 ");
  CHECK(headroom::detail::branch<headroom::branch_kind::sequence>::make_like<double>(array).size() == 2);
  check_differ(std::list<float>{1, 2}, std::list<float>{1}, "the trees differ: source has 2 elements, destination has 1");
  check_differ(std::vector<std::list<float>>{{1}}, std::vector<std::list<float>>{{}},
               "the trees differ at [0]: source has 1 elements, destination has 0");
}

TEST_CASE("maps, by key") {
  CHECK(pairs_of(std::map<int, float>{{1, 1}, {2, 2}}, std::map<int, float, std::greater<int>>{{1, 3}, {2, 4}}) ==
        "[1]:1/3 [2]:2/4 ");
  CHECK(pairs_of(std::map<int, float>{{1, 1}, {2, 2}}, std::unordered_map<int, double>{{2, 4}, {1, 3}}) == "[1]:1/3 [2]:2/4 ");
  check_differ(std::map<int, float>{{1, 1}}, std::map<int, float>{{2, 1}},
               "the trees differ at [1]: the destination does not have this key");
  check_differ(std::map<int, float>{{1, 1}}, std::map<int, float>{},
               "the trees differ: source has 1 elements, destination has 0");
}

TEST_CASE("pointers, and what they point to") {
  const float one = 1;
  CHECK(pairs_of(std::make_unique<float>(1.0F), std::make_shared<float>(2.0F)) == ":1/2 ");
  CHECK(pairs_of(std::optional<float>(1.0F), 2.0) == ":1/2 ");
  CHECK(pairs_of(2.0, std::cref(one)) == ":2/1 ");
  CHECK(pairs_of(std::optional<float>(), std::unique_ptr<float>()).empty());
  check_differ(std::optional<float>(), one, "the trees differ: the source is empty");
  check_differ(std::make_tuple(1.0F), std::make_tuple(std::unique_ptr<float>()),
               "the trees differ at <0>: the destination is empty");
}

TEST_CASE("an overloaded operator& is not asked for the address of a node") {
  const Proxied one{1.0F};
  CHECK(pairs_of(std::optional<Proxied>(one), one) == "value:1/1 ");
  CHECK(pairs_of(one, std::cref(one)) == "value:1/1 ");
}

TEST_CASE("variants that hold the same alternative") {
  using Source = std::variant<float, std::pair<float, int>>;
  using Destination = std::variant<double, std::tuple<double, int>>;
  CHECK(pairs_of(Source{1.0F}, Destination{2.0}) == ":1/2 ");
  CHECK(pairs_of(Source{std::pair<float, int>{1, 2}}, Destination{std::tuple<double, int>{3, 4}}) == "first:1/3 ");
  check_differ(Source{1.0F}, Destination{std::tuple<double, int>{3, 4}},
               "the trees differ: source holds alternative 0, destination holds 1");
  const Source last{std::in_place_index<1>, 1.0F, 2};
  CHECK(headroom::detail::branch<headroom::branch_kind::variant>::make_like<double>(last).index() == 1);
}

TEST_CASE("a variant without a value is refused") {
  std::variant<float, Throws> valueless = 1.0F;
  const std::variant<float, Throws> value = 2.0F, source{std::in_place_index<1>};
  CHECK(message_of([&] { valueless = source; }) == "headroom: copied");
  REQUIRE(valueless.valueless_by_exception());
  check_differ(valueless, value, "the tree is a variant that has lost its value to an exception");
  check_differ(value, valueless, "the tree is a variant that has lost its value to an exception");
}

TEST_CASE("sequences of a user's own") {
  using Leaves = std::vector<float>;
  const Ring<Leaves> ring({{1.0F, 2.0F}, {3.0F}});
  const Ring<std::vector<double>> made = headroom::detail::make_like<double>(ring);
  CHECK(made.size() == 2);
  CHECK((made.begin()[0].size() == 2 && made.begin()[1].size() == 1));
  CHECK(pairs_of(Ring<float>({1.0F, 2.0F}), Ring<double>({3.0, 4.0})) == "[0]:1/3 [1]:2/4 ");
  check_differ(Ring<float>({1.0F}), Ring<float>(), "the trees differ: source has 1 elements, destination has 0");
  const Block<Leaves> block(2);
  CHECK(message_of([&] { (void)headroom::detail::make_like<double>(block); }) ==
        "headroom: the trees differ: source has 2 elements, destination has 0");
}
