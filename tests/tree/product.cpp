// Structs and tuples on a walk: their children() is called once, and what is const stays so.
#include <headroom/tree/product.hpp>

#include <headroom/tree/make_like.hpp>
#include <headroom/tree/visit.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/paths.hpp"

using Floats = std::vector<float>;

namespace {

int calls = 0;

/// By a member function, for a mutable and a const struct.
struct Member {
  Floats a, b;
  auto children() { return ++calls, std::tie(a, b); }
  [[nodiscard]] auto children() const { return ++calls, std::tie(a, b); }
};
/// By a function that takes a mutable struct only.
struct Function {
  Floats a, b;
};
auto children(Function& self) { return ++calls, std::tie(self.a, self.b); }
/// By a specialisation, with names.
struct Traits {
  Floats a, b;
};
/// By HEADROOM_TREE.
struct Macro {
  Floats a, b;
  HEADROOM_TREE(Macro, a, b)
};

struct Views {
  float* elements;
  [[nodiscard]] auto children() const { return std::make_tuple(headroom::span<float>(elements, 2)); }
};
struct MutableViews {
  float* elements;
  auto children() { return std::make_tuple(headroom::span<float>(elements, 2)); }
};

}  // namespace

template <>
struct headroom::tree_traits<Traits> {
  template <class Self>
  static auto children(Self& self) {
    return ++calls, std::tie(self.a, self.b);
  }
  static constexpr std::array<const char*, 2> names = {"a", "b"};
};

namespace {

template <class Walk>
int calls_of(const Walk& walk) {
  calls = 0;
  walk();
  return calls;
}
struct Nothing {
  template <class... Leaves>
  void operator()(const headroom::detail::Path&, Leaves&...) const {}
};

template <class T>
void check_calls() {
  T tree{{1.0F}, {2.0F}};
  const T constant = tree;
  const Nothing visit{};
  CHECK(calls_of([&] { (void)headroom::leaf_count(constant); }) == 1);
  CHECK(calls_of([&] { headroom::for_each_leaf(tree, [](auto&) {}); }) == 1);
  CHECK(calls_of([&] { (void)support::paths_of(tree); }) == 1);
  CHECK(calls_of([&] { headroom::detail::walk(headroom::detail::Path(), visit, constant, tree); }) == 2);
  const std::vector<T> three(3, tree);
  CHECK(calls_of([&] { (void)headroom::leaf_count(three); }) == 3);
}

}  // namespace

TEST_CASE("a walk calls children() once for each tree") {
  check_calls<Member>();
  check_calls<Function>();
  check_calls<Traits>();
}

TEST_CASE("a new struct is filled with one call of children() for itself and one for the old one") {
  struct Shared {
    std::shared_ptr<Floats> a;
    auto children() { return ++calls, std::tie(a); }
  };
  const Shared tree{std::make_shared<Floats>(1, 1.0F)};
  CHECK(calls_of([&] { (void)headroom::detail::make_like<float>(tree); }) == 2);
  CHECK(calls_of([&] { (void)headroom::detail::make_like<float>(Member{{1.0F}, {2.0F}}); }) == 0);  // a copy will do
}

TEST_CASE("children of a const struct are const, views among them as what they look at") {
  const auto check_const = [](const auto& tree) {
    headroom::for_each_leaf(tree, [](auto& leaf) { static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>); });
    CHECK(headroom::leaf_count(tree) == 2);
  };
  check_const(Member{});
  check_const(Function{});
  check_const(Traits{});
  check_const(Macro{});
  float elements[2] = {1.0F, 2.0F};
  CHECK(headroom::element_count(Views{elements}) == 2);
  CHECK(headroom::element_count(MutableViews{elements}) == 2);  // to read it, its const may be cast away
}
