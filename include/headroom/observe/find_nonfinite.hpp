#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/all_finite.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

enum class NonFiniteKind { inf, nan };

/// The non-finite elements of a tree.
struct NonFinite {
  std::string path;  ///< of the first leaf that has one, as for_each_leaf_with_path gives it
  std::size_t index =
      0;  ///< of the first one in that leaf, in the order its elements lie in: data()[index] where it has no gaps
  NonFiniteKind kind{};       ///< of that one
  std::size_t nan_count = 0;  ///< in the whole tree
  std::size_t inf_count = 0;
};

namespace detail {

/// Counts over the pieces of one leaf.
struct NonFiniteCounts {
  static constexpr bool writes = false;
  std::size_t position = 0, first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};

  static constexpr bool wants(std::size_t) noexcept { return true; }

  template <class T>
  void operator()(const T* elements, std::size_t n) noexcept {
    using Format = format_of<T>;
    for (std::size_t i = 0; i < n; ++i) {
      typename Format::bits_type bits;
      std::memcpy(&bits, reinterpret_cast<const unsigned char*>(elements) + i * sizeof(T), sizeof bits);
      const auto magnitude = static_cast<typename Format::bits_type>(bits & Format::abs_mask);
      if (magnitude > Format::largest_finite_bits) add(position + i, magnitude >= Format::smallest_nan_bits);
    }
    position += n;
  }
  void add(std::size_t index, bool is_nan) noexcept {
    if (nan_count + inf_count == 0) {
      first = index;
      kind = is_nan ? NonFiniteKind::nan : NonFiniteKind::inf;
    }
    ++(is_nan ? nan_count : inf_count);
  }
};

/// Collects the counts of the leaves.
struct NonFiniteFinder {
  std::optional<NonFinite>& found;

  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    if (!kernel_says_finite(leaf)) add(path, leaf);
  }
  template <class Leaf>
  static bool kernel_says_finite(Leaf& leaf) {
    const CheckFinite check{};
    Sink<CheckFinite> sink(check, 0, ~std::size_t{0});
    pieces_of_leaf(sink, leaf);
    return sink.findings().finite();
  }
  template <class Leaf>
  [[gnu::cold, gnu::noinline]] void add(const Path& path, Leaf& leaf) const {
    NonFiniteCounts counts;
    pieces_of_leaf(counts, leaf);
    if (!found) found = NonFinite{path.text(), counts.first, counts.kind, 0, 0};
    found->nan_count += counts.nan_count;
    found->inf_count += counts.inf_count;
  }
};

}  // namespace detail

/// Where the first Inf or NaN of a tree is, and how many there are; nothing where all is finite. For the cold path, after a
/// step was skipped: finite leaves are read once at the speed of all_finite, the others a second time element by element.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  (void)detail::check_trees(detail::CheckReadable{}, tree);
  std::optional<NonFinite> found;
  const detail::NonFiniteFinder finder{found};
  detail::walk(detail::Path(), finder, tree);
  return found;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
