// For libFuzzer. Trees of random structure, alone and beside another one of the same or nearly the
// same structure, against a walk of the test's own: paths, results, reports, errors, and what must
// not be written.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/bits.hpp"
#include "support/generator.hpp"

namespace {

using support::below;
using support::bits_of;
using support::one_in;

void expect(bool holds) {
  if (!holds) std::abort();
}

// ---- trees ----

template <class T>
struct Node {
  std::variant<std::vector<T>, T, std::vector<std::int32_t>, std::vector<Node>,
               std::map<std::string, Node>, std::unique_ptr<Node>>
      content;
  HEADROOM_TREE(Node, content)
};

template <class T>
T random_number() {
  T number{};
  support::set_bits(number, support::any_bits<support::bits_type<T>>());
  return number;
}
struct Key {
  const char *key, *in_path;
};
constexpr Key keys[] = {{"weight", "[\"weight\"]"},
                        {"", "[\"\"]"},
                        {"a\n", "[\"a\\x0a\"]"},
                        {"b.c[0]", "[\"b.c[0]\"]"}};

template <class T>
Node<T> random_node(int depth = 0) {
  switch (below(depth < 4 ? 6 : 3)) {
    case 0: {
      std::vector<T> tensor(below(12));
      for (T& element : tensor) element = random_number<T>();
      return {std::move(tensor)};
    }
    case 1:
      return {random_number<T>()};
    case 2:
      return {std::vector<std::int32_t>(below(4), 0x7F800000)};
    case 3: {
      std::vector<Node<T>> children(below(5));
      for (Node<T>& child : children) child = random_node<T>(depth + 1);
      return {std::move(children)};
    }
    case 4: {
      std::map<std::string, Node<T>> children;
      for (std::size_t n = below(4); n > 0; --n)
        children[keys[below(4)].key] = random_node<T>(depth + 1);
      return {std::move(children)};
    }
    default:
      return {one_in(4) ? nullptr : std::make_unique<Node<T>>(random_node<T>(depth + 1))};
  }
}

/// A tree of the same structure, except that the `changed`-th node is random. The numbers are
/// random, the integers 7.
template <class To, class T>
Node<To> similar(const Node<T>& node, std::size_t& changed) {
  if (changed-- == 0) return random_node<To>(2);
  switch (node.content.index()) {
    case 0:
      return {std::vector<To>(std::get<0>(node.content).size(), random_number<To>())};
    case 1:
      return {random_number<To>()};
    case 2:
      return {std::vector<std::int32_t>(std::get<2>(node.content).size(), 7)};
    case 3: {
      std::vector<Node<To>> children;
      for (const auto& child : std::get<3>(node.content))
        children.push_back(similar<To>(child, changed));
      return {std::move(children)};
    }
    case 4: {
      std::map<std::string, Node<To>> children;
      for (const auto& [key, child] : std::get<4>(node.content))
        children[key] = similar<To>(child, changed);
      return {std::move(children)};
    }
    default: {
      const auto& child = std::get<5>(node.content);
      return {child == nullptr ? nullptr
                               : std::make_unique<Node<To>>(similar<To>(*child, changed))};
    }
  }
}

template <class T, class U>
bool same_structure(const Node<T>& a, const Node<U>& b) {
  if (a.content.index() != b.content.index()) return false;
  switch (a.content.index()) {
    case 0:
      return std::get<0>(a.content).size() == std::get<0>(b.content).size();
    case 1:
    case 2:
      return true;  // sizes of integers do not matter
    case 3: {
      const auto& first = std::get<3>(a.content);
      const auto& second = std::get<3>(b.content);
      bool same = first.size() == second.size();
      for (std::size_t i = 0; same && i < first.size(); ++i)
        same = same_structure(first[i], second[i]);
      return same;
    }
    case 4: {
      const auto& first = std::get<4>(a.content);
      const auto& second = std::get<4>(b.content);
      bool same = first.size() == second.size();
      for (const auto& [key, child] : first)
        same = same && second.count(key) == 1 && same_structure(child, second.at(key));
      return same;
    }
    default: {
      const auto& first = std::get<5>(a.content);
      const auto& second = std::get<5>(b.content);
      return (first == nullptr) == (second == nullptr) &&
             (first == nullptr || same_structure(*first, *second));
    }
  }
}

/// A leaf of floating-point numbers.
template <class T>
struct Leaf {
  std::string path;
  const T* elements;
  std::size_t size;
};
/// The leaves of a tree in order, and its integers.
template <class T>
struct Leaves {
  std::vector<Leaf<T>> list;
  std::vector<std::int32_t> integers;

  explicit Leaves(const Node<T>& node) { add(node, ""); }
  void add(const Node<T>& node, std::string path) {
    path += path.empty() ? "content" : ".content";
    switch (node.content.index()) {
      case 0:
        return list.push_back(
            {path, std::get<0>(node.content).data(), std::get<0>(node.content).size()});
      case 1:
        return list.push_back({path, &std::get<1>(node.content), 1});
      case 2:
        integers.insert(integers.end(), std::get<2>(node.content).begin(),
                        std::get<2>(node.content).end());
        return;
      case 3: {
        std::size_t i = 0;
        for (const auto& child : std::get<3>(node.content))
          add(child, path + "[" + std::to_string(i++) + "]");
        return;
      }
      case 4:
        for (const auto& [key, child] : std::get<4>(node.content)) {
          for (const Key& one : keys) {
            if (key == one.key) add(child, path + one.in_path);
          }
        }
        return;
      default:
        if (std::get<5>(node.content) != nullptr) add(*std::get<5>(node.content), path);
    }
  }
  /// All bits, to see whether a tree has changed.
  [[nodiscard]] support::AnyBits bits() const {
    support::AnyBits all;
    for (const Leaf<T>& leaf : list) {
      for (std::size_t i = 0; i < leaf.size; ++i) all.push_back(bits_of(leaf.elements[i]));
    }
    for (const std::int32_t integer : integers) all.push_back(static_cast<std::uint64_t>(integer));
    return all;
  }
};

// ---- the checks ----

/// Whether `to` has the elements of `from` divided by the scale, and `report` describes them.
template <class To, class T>
bool holds_unscaled(const Leaves<To>& to, const Leaves<T>& from, float loss_scale,
                    const headroom::GradientReport& report) {
  using Wide =
      std::conditional_t<std::is_same_v<T, double> || std::is_same_v<To, double>, double, float>;
  bool same = to.list.size() == from.list.size(), finite = true;
  double max_abs = 0.0;
  for (std::size_t leaf = 0; same && leaf < to.list.size(); ++leaf) {
    same = to.list[leaf].size == from.list[leaf].size && to.list[leaf].path == from.list[leaf].path;
    for (std::size_t i = 0; same && i < to.list[leaf].size; ++i) {
      const To stored = to.list[leaf].elements[i];
      const To wanted(static_cast<Wide>(from.list[leaf].elements[i]) /
                      static_cast<Wide>(loss_scale));
      same = support::same_bits<headroom::detail::format_of<To>>(bits_of(stored), bits_of(wanted));
      finite = finite && std::isfinite(static_cast<double>(stored));
      max_abs = finite ? std::max(max_abs, std::fabs(static_cast<double>(stored)))
                       : std::numeric_limits<double>::infinity();
    }
  }
  return same && report.finite == finite && report.max_abs == max_abs;
}

template <class T>
void check_walk(const Node<T>& tree, const Leaves<T>& leaves) {
  std::size_t elements = 0, leaf = 0;
  headroom::for_each_leaf_with_path(tree, [&](const std::string& path, const auto&) {
    expect(leaf < leaves.list.size() && path == leaves.list[leaf].path);
    elements += leaves.list[leaf++].size;
  });
  expect(leaf == leaves.list.size() && headroom::leaf_count(tree) == leaf &&
         headroom::element_count(tree) == elements);
}

template <class T>
void check_find(const Node<T>& tree, const Leaves<T>& leaves) {
  headroom::NonFinite expected;
  for (std::size_t leaf = 0; leaf < leaves.list.size(); ++leaf) {
    for (std::size_t i = 0; i < leaves.list[leaf].size; ++i) {
      const auto number = static_cast<double>(leaves.list[leaf].elements[i]);
      if (std::isfinite(number)) continue;
      const auto kind =
          std::isnan(number) ? headroom::NonFiniteKind::nan : headroom::NonFiniteKind::inf;
      if (expected.nan_count + expected.inf_count == 0)
        expected = {leaves.list[leaf].path, i, kind, 0, 0, leaf};
      ++(std::isnan(number) ? expected.nan_count : expected.inf_count);
    }
  }
  const auto found = headroom::find_nonfinite(tree);
  expect(found.has_value() == (expected.nan_count + expected.inf_count != 0));
  expect(headroom::all_finite(tree) != found.has_value());
  if (!found) return;
  expect(found->path == expected.path && found->index == expected.index &&
         found->kind == expected.kind);
  expect(found->nan_count == expected.nan_count && found->inf_count == expected.inf_count &&
         found->leaf == expected.leaf);
}

template <class T, class To>
void check(float loss_scale) {
  const Node<T> tree = random_node<T>();
  const Leaves<T> leaves(tree);
  const support::AnyBits before = leaves.bits();
  check_walk(tree, leaves);
  check_find(tree, leaves);

  const auto [grads, report] = one_in(40)
                                   ? headroom::unscale<To>(tree, loss_scale, headroom::parallel(2))
                                   : headroom::unscale<To>(tree, loss_scale);
  expect(same_structure(tree, grads) && Leaves<To>(grads).integers == leaves.integers);
  expect(holds_unscaled(Leaves<To>(grads), leaves, loss_scale, report));

  std::size_t changed = below(40);
  Node<To> other = similar<To>(tree, changed);
  const Leaves<To> others(other);
  const support::AnyBits other_before = others.bits();
  const std::vector<std::int32_t> integers = others.integers;
  try {
    const headroom::GradientReport into = headroom::unscale_into(tree, other, loss_scale);
    expect(same_structure(tree, other) && Leaves<To>(other).integers == integers);
    expect(holds_unscaled(others, leaves, loss_scale, into));
  } catch (const std::invalid_argument& error) {
    expect(!same_structure(tree, other) && others.bits() == other_before);
    expect(std::string_view(error.what()).substr(0, 26) == "headroom: the trees differ");
  }
  expect(leaves.bits() == before);

  changed = std::numeric_limits<std::size_t>::max();
  Node<T> in_place = similar<T>(tree, changed);
  headroom::cast_into(tree, in_place);
  const headroom::GradientReport own =
      headroom::unscale_in_place<headroom::allow_fp16_gradients>(in_place, loss_scale);
  expect(holds_unscaled(Leaves<T>(in_place), leaves, loss_scale, own));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  support::set_bytes(data, size);
  const float scales[] = {1.0F, 0x1p16F, 0x1p-126F, 3.0F};
  const float loss_scale = scales[below(4)];
  switch (below(3)) {
    case 0:
      check<headroom::half, float>(loss_scale);
      break;
    case 1:
      check<float, headroom::bfloat16>(loss_scale);
      break;
    default:
      check<double, double>(loss_scale);
      break;
  }
  return 0;
}
