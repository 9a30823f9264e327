// A verb that returns a tree may reuse the elements of a temporary, if it is known to own them, and
// no others.
#include <headroom/headroom.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using namespace headroom;

namespace {

using Floats = std::vector<float>;
const ConstantLossScale four(4.0F);

/// Children behind pointers.
struct Pointers {
  Floats* weight;
  Floats* bias;
};
/// Children that are members, which headroom cannot know.
struct Members {
  Floats weight;
  int step = 0;
};
/// Shares one child with its copies. It would also share the other one if a new tree did not
/// replace it.
struct Mixed {
  std::shared_ptr<Floats> shared;
  Floats* pointer;
};
/// A span of trees.
struct Layers {
  Floats* first;
  std::size_t count;
  Floats* begin() const { return first; }
  Floats* end() const { return first + count; }
  std::size_t size() const { return count; }
};
/// HEADROOM_TREE with expressions, which may lead to any object.
struct Elsewhere {
  Pointers there;
  HEADROOM_TREE(Elsewhere, there.weight[0])
};

/// A tensor that cannot be walked if it is on a device.
struct OnDevice {
  Floats elements;
  bool is_here;
};

/// Runs both verbs twice on a temporary from `make`. Each time the result or the error is the same,
/// and the user's `values` do not change.
template <class Make>
void check_never_taken(const Floats& values, const Make& make) {
  const Floats before = values;
  for (int i = 0; i < 2; ++i) {
    const auto result = four.unscale(make());
    CHECK(result.report.max_abs == 2.0);
    CHECK(values == before);
    CHECK(measure(four.scale(make())).max_abs == 32.0);
    CHECK(values == before);
    CHECK(measure(cast<float>(make())).max_abs == 8.0);
    CHECK(values == before);
  }
}
template <class Tree>
void check_refused(const Floats& values, const Tree& tree, const std::string& path) {
  const Floats before = values;
  for (int i = 0; i < 2; ++i) {
    const std::string says_so = path + ": source and destination overlap";
    CHECK_INVALID(says_so, four.unscale(Tree(tree)));
    CHECK_INVALID(says_so, four.scale(Tree(tree)));
    CHECK_INVALID(says_so, cast<float>(Tree(tree)));
    CHECK(values == before);
  }
}

}  // namespace

template <>
struct headroom::tree_traits<Pointers> {
  static auto children(Pointers& self) { return std::tie(*self.weight, *self.bias); }
};
template <>
struct headroom::tree_traits<Members> {
  static auto children(Members& self) { return std::tie(self.weight, self.step); }
};
template <>
struct headroom::tree_traits<Mixed> {
  static auto children(Mixed& self) { return std::tie(self.shared, *self.pointer); }
};
template <>
struct headroom::tensor_traits<OnDevice> {
  using value_type = float;
  static const float* data(const OnDevice& tensor) { return tensor.elements.data(); }
  static float* data(OnDevice& tensor) { return tensor.elements.data(); }
  static std::size_t size(const OnDevice& tensor) { return tensor.elements.size(); }
  static const char* obstacle(const OnDevice& tensor) {
    return tensor.is_here ? nullptr : "is on another device";
  }
  template <class To>
  using rebind = std::vector<To>;
  template <class To>
  static rebind<To> like(const OnDevice& tensor) {
    return rebind<To>(tensor.elements.size());
  }
};

template <>
struct headroom::tree_traits<Layers> {
  static constexpr branch_kind kind = branch_kind::sequence;
  template <class To>
  using rebuilt = std::vector<To>;
};

TEST_CASE(
    "a temporary of views, references or shared pointers is not the owner of their elements") {
  Floats a = {8.0F, 4.0F};
  const auto shared = std::make_shared<Floats>(a);
  check_never_taken(a, [&] { return span<float>(a); });
  check_never_taken(a, [&] { return std::ref(a); });
  check_never_taken(a, [&] { return std::tie(a); });
  check_never_taken(a, [&] { return std::pair<Floats&, Floats&>(a, a); });
  check_never_taken(a, [&] { return std::vector<span<float>>{a, a}; });
  check_never_taken(a, [&] { return std::map<int, span<float>>{{1, a}}; });
  check_never_taken(a, [&] { return std::map<int, std::reference_wrapper<Floats>>{{1, a}}; });
  check_never_taken(*shared, [&] { return std::shared_ptr<Floats>(shared); });
  check_never_taken(*shared, [&] { return std::vector<std::shared_ptr<Floats>>{shared}; });
  using Both = std::variant<float, span<float>>;  // one alternative is a view
  check_never_taken(a, [&] { return std::tuple<Floats, Floats&>({1.0F}, a); });
  check_never_taken(a, [&] { return std::pair<Floats&, Floats>(a, {1.0F}); });
  check_never_taken(a, [&] { return std::vector<Both>{1.0F, span<float>(a)}; });
  check_never_taken(*shared, [&] { return std::make_tuple(1.0F, shared); });
}

TEST_CASE(
    "a temporary struct whose children may be anywhere is copied, or refused where its copies "
    "share them") {
  Floats a = {8.0F, 4.0F}, b = {2.0F};
  const Members members{a, 3};
  check_never_taken(a, [&] { return members; });
  CHECK(four.scale(Members{a, 3}).step == 3);
  check_refused(a, Pointers{&a, &b}, "<0>");
  check_refused(a, std::vector<Pointers>{{&a, &b}}, "[0]<0>");
  check_refused(a, Elsewhere{{&a, &b}}, "there.weight[0]");
  const auto shared = std::make_shared<Floats>(a);
  check_refused(a, Mixed{shared, &a}, "<1>");
  CHECK(*shared == a);
  CHECK(b == Floats{2.0F});
}

TEST_CASE("a temporary container of the user's own is not known to own its trees") {
  Floats trees[] = {{8.0F, 4.0F}, {2.0F}};
  check_never_taken(trees[0], [&] { return Layers{trees, 2}; });
}

TEST_CASE("a temporary that owns its elements is used itself") {
  auto network = support::network_of(8.0F);
  const float* const data = network.layers[0].weight.data();
  auto scaled = four.scale(std::move(network));
  CHECK(scaled.layers[0].weight.data() == data);
  const auto result = four.unscale(std::move(scaled));
  CHECK(result.grads.layers[0].weight.data() == data);
  CHECK(result.report.max_abs == 8.0);

  auto tree = std::make_tuple(Floats{1.0F}, std::map<int, Floats>{{1, {2.0F}}},
                              std::make_unique<Floats>(1, 3.0F));
  const float* const in_map = std::get<1>(tree).at(1).data();
  const Floats* const pointee = std::get<2>(tree).get();
  const auto same = cast<float>(std::move(tree));
  CHECK(std::get<1>(same).at(1).data() == in_map);
  CHECK(std::get<2>(same).get() == pointee);
}

TEST_CASE("what cannot be walked is refused when a new tree is made like it") {
  const std::vector<OnDevice> here{{{8.0F}, true}, {{4.0F}, true}};
  const std::vector<OnDevice> elsewhere{{{8.0F}, true}, {{4.0F}, false}};
  CHECK(MESSAGE_OF(cast<half>(elsewhere)) == "headroom: [1] is on another device");
  CHECK(MESSAGE_OF(unscale<float>(elsewhere, 2.0F)) == "headroom: [1] is on another device");
  CHECK(unscale<float>(here, 2.0F).grads == std::vector<Floats>{{4.0F}, {2.0F}});
}
