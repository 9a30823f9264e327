#pragma once

#include <headroom/tree/loop_nest.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

/// A tensor type of a user's own: a view with any shape and strides.
template <class T>
struct Strided {
  T* first;
  std::vector<std::ptrdiff_t> shape, strides;

  [[nodiscard]] std::size_t size() const {
    std::ptrdiff_t product = 1;
    for (const std::ptrdiff_t n : shape) product *= n;
    return static_cast<std::size_t>(product);
  }
  /// The element at the i-th position in row-major order.
  [[nodiscard]] T& at(std::size_t i) const {
    std::ptrdiff_t offset = 0;
    auto rest = static_cast<std::ptrdiff_t>(i);
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
      offset += rest % shape[d] * strides[d];
    return first[offset];
  }
};

/// A tensor type whose traits have only what is required. It has no `rebind`, so verbs cannot make
/// new ones.
template <class T>
struct Bare {
  std::vector<T> elements;
};

/// The offsets of an element in source and destination.
using Places = std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>>;
/// Of all elements, in the order of loops over these dimensions.
inline Places places_of(const std::vector<headroom::detail::Dimension>& dimensions) {
  Places places = {{0, 0}};
  for (const auto& dimension : dimensions) {
    Places longer;
    for (const auto& [source, destination] : places) {
      for (std::ptrdiff_t n = 0; n < dimension.size; ++n) {
        longer.emplace_back(source + n * dimension.source_stride,
                            destination + n * dimension.destination_stride);
      }
    }
    places = std::move(longer);
  }
  return places;
}

}  // namespace support

template <class T>
struct headroom::tensor_traits<support::Strided<T>> {
  using value_type = std::remove_const_t<T>;
  static constexpr bool is_view = true;
  static T* data(const support::Strided<T>& tensor) { return tensor.first; }
  static std::size_t size(const support::Strided<T>& tensor) { return tensor.size(); }
  static Layout layout(const support::Strided<T>& tensor) {
    Layout layout;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      layout.push(tensor.shape[d], tensor.strides[d]);
    return layout;
  }
  template <class To>
  using rebind = std::vector<To>;
  template <class To>
  static rebind<To> like(const support::Strided<T>& tensor) {
    return rebind<To>(tensor.size());
  }
};

template <class T>
struct headroom::tensor_traits<support::Bare<T>> {
  using value_type = T;
  static T* data(support::Bare<T>& tensor) { return tensor.elements.data(); }
  static const T* data(const support::Bare<T>& tensor) { return tensor.elements.data(); }
  static std::size_t size(const support::Bare<T>& tensor) { return tensor.elements.size(); }
};
