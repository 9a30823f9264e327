// What a walk meets, by what path. Each kind of container: std.cpp; paths themselves: path.cpp; structs: product.cpp.
#include <headroom/tree/visit.hpp>

#include <headroom/dtype/half.hpp>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/paths.hpp"

using headroom::element_count;
using headroom::half;
using headroom::leaf_count;
using support::paths_of;
using Paths = std::vector<std::string>;

namespace {

/// A struct that holds itself.
struct Node {
  std::vector<float> value;
  std::vector<Node> children_;
  HEADROOM_TREE(Node, value, children_)
};

}  // namespace

TEST_CASE("a tree that is a leaf has an empty path") {
  CHECK(paths_of(1.0F) == Paths{""});
  CHECK(paths_of(half(1.0F)) == Paths{""});
  CHECK(paths_of(std::vector<double>(3)) == Paths{""});
  CHECK(paths_of(std::array<half, 4>{}) == Paths{""});
  CHECK(paths_of(headroom::span<const float>()) == Paths{""});
  float array[5] = {};
  CHECK(paths_of(array) == Paths{""});
  CHECK(element_count(array) == 5);
  CHECK(leaf_count(array) == 1);
}

TEST_CASE("nested to any depth") {
  std::map<std::string, std::vector<std::optional<std::tuple<float, std::unique_ptr<std::vector<double>>>>>> tree;
  tree["a"].resize(2);
  tree["a"][1].emplace(1.0F, std::make_unique<std::vector<double>>(5));
  CHECK(paths_of(tree) == Paths{"[\"a\"][1]<0>", "[\"a\"][1]<1>"});
  CHECK(element_count(tree) == 6);
  using Deep = std::vector<std::vector<std::vector<std::vector<std::vector<std::vector<float>>>>>>;
  CHECK(paths_of(Deep{{{{{{1.0F}}}}}}) == Paths{"[0][0][0][0][0]"});
}

TEST_CASE("a struct that holds itself") {
  const Node tree{{1.0F}, {{{2.0F, 3.0F}, {}}, {{}, {{{4.0F}, {}}}}}};
  CHECK(paths_of(tree) == Paths{"value", "children_[0].value", "children_[1].value", "children_[1].children_[0].value"});
  CHECK(element_count(tree) == 4);
}

TEST_CASE("members with names read like C++") {
  const auto network = support::network_of(1.0F);
  CHECK(paths_of(network) == Paths{"layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias",
                                   "heads[\"decoder\"]", "heads[\"encoder\"]", "temperature"});
  CHECK(leaf_count(network) == support::network_leaves);
  CHECK(element_count(network) == support::network_elements);
}
