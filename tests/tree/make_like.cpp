// New trees like others, made by cast: their type, their structure, elements of their own, and
// copies of everything else.
#include <headroom/tree/make_like.hpp>

#include <headroom/headroom.hpp>

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
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using namespace headroom;
using namespace headroom::detail;

namespace {

template <class Tree, class Expected>
constexpr bool becomes = std::is_same_v<rebound_t<Tree, half>, Expected>;
template <class T>
using Vector = std::vector<T>;
/// A class template as libraries have it, with an integer among its parameters.
template <class T, std::size_t Alignment = 64>
struct Aligned : std::allocator<T> {
  template <class To>
  struct rebind {
    using other = Aligned<To, Alignment>;
  };
};
static_assert(becomes<std::vector<float, Aligned<float>>, std::vector<half, Aligned<half>>>);
static_assert(becomes<std::vector<Vector<float>, Aligned<Vector<float>>>,
                      std::vector<Vector<half>, Aligned<Vector<half>>>>);

static_assert(becomes<float, half> && becomes<double, half> && becomes<half, half> &&
              becomes<bfloat16, half>);
static_assert(becomes<Vector<float>, Vector<half>> && becomes<const Vector<float>&, Vector<half>>);
static_assert(becomes<std::array<float, 3>, std::array<half, 3>> &&
              becomes<float (&)[3], std::array<half, 3>>);
static_assert(becomes<float (&)[2][3], std::array<std::array<half, 3>, 2>>);
static_assert(becomes<span<float>, Vector<half>> && becomes<span<const float>, Vector<half>>);
static_assert(becomes<Vector<Vector<float>>, Vector<Vector<half>>> &&
              becomes<std::list<Vector<float>>, std::list<Vector<half>>>);
static_assert(becomes<std::array<Vector<float>, 2>, std::array<Vector<half>, 2>>);
static_assert(becomes<std::tuple<float, int, Vector<double>>, std::tuple<half, int, Vector<half>>>);
static_assert(becomes<std::pair<float, std::string>, std::pair<half, std::string>>);
static_assert(becomes<std::map<std::string, Vector<float>>, std::map<std::string, Vector<half>>>);
static_assert(
    becomes<std::map<int, float, std::greater<int>>, std::map<int, half, std::greater<int>>>);
static_assert(becomes<std::optional<float>, std::optional<half>>);
static_assert(
    becomes<std::variant<float, Vector<float>, int>, std::variant<half, Vector<half>, int>>);
static_assert(becomes<std::unique_ptr<Vector<float>>, std::unique_ptr<Vector<half>>>);
static_assert(becomes<std::shared_ptr<float>, std::shared_ptr<half>>);
static_assert(becomes<std::reference_wrapper<const Vector<float>>, Vector<half>>);
static_assert(becomes<std::tuple<float&, Vector<float>&>, std::tuple<half, Vector<half>>>);
static_assert(
    becomes<std::tuple<float, Vector<bool>, Vector<int>, std::string, std::map<int, int>>,
            std::tuple<half, Vector<bool>, Vector<int>, std::string, std::map<int, int>>>);
static_assert(becomes<support::Network<float>, support::Network<half>>);
static_assert(becomes<Vector<support::Layer<float>>, Vector<support::Layer<half>>>);

/// A recursive tree with owners that cannot be copied.
struct Owners {
  std::unique_ptr<std::vector<float>> weight;
  std::vector<std::unique_ptr<Owners>> next;  // std::is_copy_constructible says yes
  HEADROOM_TREE(Owners, weight, next)
};
struct Named {
  std::vector<float> weight;
  std::string name;
  const int version;  // neither default constructible nor assignable
  HEADROOM_TREE(Named, weight)
};
struct SharedWeight {
  std::shared_ptr<std::vector<float>> weight;
  std::string name;
  HEADROOM_TREE(SharedWeight, weight)
};
template <class T>
struct Node {
  std::vector<T> value;
  std::vector<Node> below;
  HEADROOM_TREE(Node, value, below)
};

/// Its copies have the same elements.
struct References {
  std::vector<float>& weight;
  HEADROOM_TREE(References, weight)
};

/// Has an integer in its type, and a member with a dtype of its own.
template <class T, int Width, bool Biased>
struct Dense {
  std::array<T, Width> weight{};
  double loss_of_last_step = 0.0;
  std::optional<T> bias;
  int shape[2][3] = {};
  std::string name;  // not a child: not walked, and not copied to another dtype
  HEADROOM_TREE(Dense, weight, loss_of_last_step, bias, shape)
};
static_assert(becomes<Dense<float, 3, true>, Dense<half, 3, true>>);

/// A class template over its tensor type.
template <class Tensor>
struct OfTensor {
  Tensor weight, bias;
  HEADROOM_TREE(OfTensor, weight, bias)
};
static_assert(becomes<OfTensor<Vector<float>>, OfTensor<Vector<half>>>);

struct Rebindable32 {
  std::vector<float> weight;
  int step = 0;
};
struct Rebindable16 {
  std::vector<half> weight;
  int step = 0;
  HEADROOM_TREE(Rebindable16, weight, step)
};
// All leaves are half already, so the type stays, though it has no counterpart of another dtype.
static_assert(becomes<Rebindable16, Rebindable16>);

}  // namespace

template <>
struct headroom::tree_traits<Rebindable32> {
  template <class Self>
  static auto children(Self& self) {
    return std::tie(self.weight, self.step);
  }
  template <class To>
  using rebind = std::conditional_t<std::is_same_v<To, half>, Rebindable16, Rebindable32>;
};

TEST_CASE("cast keeps the values and the structure of every container") {
  const std::tuple<std::map<std::string, std::vector<float>>, std::list<std::pair<float, int>>,
                   std::optional<double>, std::variant<int, std::vector<float>>, std::deque<float>,
                   std::array<std::vector<float>, 2>>
      tree{{{"a", {1.0F, 2.0F}}, {"b", {}}}, {{3.0F, 4}},  5.0,
           std::vector<float>{6.0F},         {7.0F, 8.0F}, {{{9.0F}, {}}}};
  const auto narrow = cast<half>(tree);
  CHECK(std::get<0>(narrow) ==
        std::map<std::string, std::vector<half>>{{"a", {half(1.0F), half(2.0F)}}, {"b", {}}});
  CHECK(std::get<1>(narrow) == std::list<std::pair<half, int>>{{half(3.0F), 4}});
  CHECK(std::get<2>(narrow) == half(5.0F));
  CHECK(std::get<std::vector<half>>(std::get<3>(narrow)) == std::vector<half>{half(6.0F)});
  CHECK(std::get<4>(narrow) == std::deque<half>{half(7.0F), half(8.0F)});
  CHECK(std::get<5>(narrow)[0] == std::vector<half>{half(9.0F)});
  const float matrix[2][2] = {{1.0F, 2.0F}, {3.0F, 4.0F}};  // becomes a std::array of std::arrays
  CHECK(cast<half>(matrix)[1][0] == half(3.0F));
  CHECK(cast<half>(std::unique_ptr<float>()) == nullptr);
  CHECK_FALSE(cast<half>(std::optional<float>()).has_value());
  const std::variant<int, std::vector<float>> integer = 7;
  CHECK(std::get<int>(cast<half>(integer)) == 7);
}

TEST_CASE("a member that has a dtype of its own keeps it, and C arrays are assigned") {
  Dense<float, 3, true> dense;
  dense.weight = {1.0F, 2.0F, 3.0F};
  dense.loss_of_last_step = 0.1;
  dense.bias = 4.0F;
  dense.shape[0][0] = 5;
  dense.shape[1][2] = 6;
  const auto narrow = cast<half>(dense);
  CHECK(narrow.weight[2] == half(3.0F));
  CHECK(narrow.loss_of_last_step == 0.1);
  CHECK(narrow.bias == half(4.0F));
  CHECK(narrow.shape[0][0] == 5);
  CHECK(narrow.shape[1][2] == 6);
}

TEST_CASE("traits say what a struct becomes") {
  static_assert(becomes<Rebindable32, Rebindable16>);
  const auto narrow = cast<half>(Rebindable32{{1.0F, 2.0F}, 3});
  CHECK(narrow.weight == std::vector<half>{half(1.0F), half(2.0F)});
  CHECK(narrow.step == 3);
  CHECK(cast<half>(narrow).weight == narrow.weight);  // needs no counterpart
}

TEST_CASE("owners that cannot be copied are copied in depth") {
  Owners tree;
  tree.weight = std::make_unique<std::vector<float>>(2, 1.0F);
  tree.next.push_back(std::make_unique<Owners>());
  tree.next[0]->weight = std::make_unique<std::vector<float>>(1, 2.0F);
  const auto copy = cast<float>(tree);
  static_assert(std::is_same_v<decltype(copy), const Owners>);
  CHECK(copy.weight != tree.weight);
  CHECK(*copy.weight == *tree.weight);
  REQUIRE(copy.next.size() == 1);
  CHECK(*copy.next[0]->weight == std::vector<float>{2.0F});
  CHECK(copy.next[0]->next.empty());
}

TEST_CASE("a copy has the members that are no children") {
  const Named tree{{1.0F}, "name", 7};
  const auto copy = cast<float>(tree);
  CHECK(copy.weight == tree.weight);
  CHECK(copy.name == "name");
  CHECK(copy.version == 7);
}

TEST_CASE("shared elements are copied, too") {
  const SharedWeight tree{std::make_shared<std::vector<float>>(2, 1.0F), "name"};
  const auto copy = cast<float>(tree);
  CHECK(copy.weight != tree.weight);
  CHECK(*copy.weight == *tree.weight);
  CHECK(copy.name == "name");
  CHECK(*cast<half>(tree.weight) == std::vector<half>(2, half(1.0F)));
  CHECK(cast<half>(std::shared_ptr<float>()) == nullptr);
}

TEST_CASE(
    "a struct of references has no elements of its own, and is refused before anything is "
    "written") {
  std::vector<float> weight = {1.0F};
  const std::string says_so = "weight: source and destination overlap";
  CHECK_INVALID(says_so, scale(References{weight}, 2.0));
  CHECK_INVALID(says_so, unscale(References{weight}, 2.0F));
  CHECK(weight == std::vector<float>{1.0F});
}

TEST_CASE("a new struct of one that holds itself") {
  const Node<float> tree{{1.0F}, {{{2.0F}, {}}, {{}, {{{3.0F}, {}}}}}};
  const Node<half> narrow = cast<half>(tree);
  REQUIRE(narrow.below.size() == 2);
  CHECK(narrow.below[0].value == std::vector<half>{half(2.0F)});
  CHECK(narrow.below[1].below.at(0).value == std::vector<half>{half(3.0F)});
}
