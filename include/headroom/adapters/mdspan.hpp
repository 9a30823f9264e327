#pragma once

#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

// std::mdspan (C++23) and Kokkos::View in the host's memory as leaves, with any strides. This header includes neither: a leaf
// is any type with extent(i), stride(i), and data_handle() or data() that is a pointer. They are views, so verbs that make new
// trees do not take them: use those that write into a tensor.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::mdspan {

template <class T>
using handle_t = decltype(std::declval<const T&>().data_handle());
template <class T>
using strided_t = decltype(std::declval<const T&>().extent(0), std::declval<const T&>().stride(0));

template <class T>
auto data_of(const T& view) {
  if constexpr (is_detected_v<handle_t, T>) {
    static_assert(std::is_same_v<typename T::reference, typename T::element_type&>,
                  "headroom: the accessor of this mdspan computes its elements, which are not in memory");
    return view.data_handle();
  } else {
    return view.data();
  }
}
template <class T>
using pointer_t = std::enable_if_t<std::is_pointer_v<decltype(mdspan::data_of(std::declval<const T&>()))>>;

template <class T>
constexpr std::size_t rank_of() {
  if constexpr (is_detected_v<handle_t, T>) {
    return T::rank();
  } else {
    return T::rank;
  }
}

}  // namespace detail::mdspan

template <class T>
struct tensor_traits<T, std::enable_if_t<detail::is_detected_v<detail::mdspan::strided_t, T> &&
                                         detail::is_detected_v<detail::mdspan::pointer_t, T>>> {
  using value_type = std::remove_cv_t<std::remove_pointer_t<decltype(detail::mdspan::data_of(std::declval<const T&>()))>>;
  static constexpr bool is_view = true;

  static auto* data(const T& view) { return detail::mdspan::data_of(view); }
  static std::size_t size(const T& view) {
    std::size_t size = 1;
    for (std::size_t i = 0; i < rank(); ++i) size *= static_cast<std::size_t>(view.extent(i));
    return size;
  }
  static Layout layout(const T& view) {
    Layout layout;
    for (std::size_t i = 0; i < rank(); ++i)
      layout.push(static_cast<std::ptrdiff_t>(view.extent(i)), static_cast<std::ptrdiff_t>(view.stride(i)));
    return layout;
  }

 private:
  static constexpr std::size_t rank() { return detail::mdspan::rank_of<T>(); }
};

HEADROOM_DETAIL_END_NAMESPACE
