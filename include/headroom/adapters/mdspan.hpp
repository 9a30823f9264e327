#pragma once

#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

// std::mdspan (C++23) and Kokkos::View in the host's memory as leaves, with any strides. This header includes neither: it knows
// an mdspan by its accessor_type, a View by its memory_space. They are views, so verbs that make new trees do not take them:
// use those that write into a tensor.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::mdspan {

template <class T, class = typename T::accessor_type>
auto data_of(const T& view, int) -> std::decay_t<decltype(view.data_handle())> {
  static_assert(std::is_same_v<typename T::reference, typename T::element_type&>,
                "headroom: the accessor of this mdspan computes its elements, which are not in memory");
  return view.data_handle();
}
template <class T, class = typename T::memory_space>
auto data_of(const T& view, long) -> std::decay_t<decltype(view.data())> {
  return view.data();
}
template <class T>
using pointer_t = decltype(mdspan::data_of(std::declval<const T&>(), 0));
template <class T>
using strided_t = std::enable_if_t<std::is_pointer_v<pointer_t<T>>,
                                   decltype(std::declval<const T&>().extent(0), std::declval<const T&>().stride(0))>;
template <class T>
using rank_t = decltype(T::rank());

template <class T>
constexpr std::size_t rank_of() {
  if constexpr (is_detected_v<rank_t, T>) {
    return T::rank();
  } else {
    return T::rank;
  }
}

}  // namespace detail::mdspan

template <class T>
struct tensor_traits<T, std::enable_if_t<detail::is_detected_v<detail::mdspan::strided_t, T>>> {
  using value_type = std::remove_cv_t<std::remove_pointer_t<detail::mdspan::pointer_t<T>>>;
  static constexpr bool is_view = true;

  static auto* data(const T& view) { return detail::mdspan::data_of(view, 0); }
  static std::size_t size(const T& view) {
    std::size_t size = 1;
    for (std::size_t i = 0; i < rank(); ++i) size *= static_cast<std::size_t>(view.extent(i));
    return size;
  }
  static Layout layout(const T& view) {
    Layout layout;
    if constexpr (rank() > 0) {  // else an mdspan has no stride
      for (std::size_t i = 0; i < rank(); ++i)
        layout.push(static_cast<std::ptrdiff_t>(view.extent(i)), static_cast<std::ptrdiff_t>(view.stride(i)));
    }
    return layout;
  }

 private:
  static constexpr std::size_t rank() { return detail::mdspan::rank_of<T>(); }
};

HEADROOM_DETAIL_END_NAMESPACE
