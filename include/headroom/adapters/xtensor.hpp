#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <xtl/xhalf_float.hpp>

// Since version 0.26 xtensor's headers are in folders.
#if __has_include(<xtensor/containers/xarray.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xfixed.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/views/xstrided_view.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xfixed.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

// xtensor's containers (xarray, xtensor, xtensor_fixed), adaptors (xt::adapt) and strided views as leaves, xtl::half_float as a
// dtype. Anything without a data pointer and strides (an expression, a view through a list of indices) is refused at compile
// time: make it a container with xt::eval. New tensors are containers of the same rank and layout.

namespace headroom {
inline namespace HEADROOM_BUILD {

template <>
struct dtype_traits<xtl::half_float> {
  using format = binary16;
};

namespace detail::xtensor {

template <class T>
using strided_t = std::void_t<decltype(std::declval<const T&>().data()), decltype(std::declval<const T&>().strides()),
                              decltype(std::declval<const T&>().data_offset())>;

template <class T>
inline constexpr bool is_container = false;
template <class Storage, xt::layout_type L, class Shape, class Tag>
inline constexpr bool is_container<xt::xarray_container<Storage, L, Shape, Tag>> = true;
template <class Storage, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool is_container<xt::xtensor_container<Storage, N, L, Tag>> = true;
template <class T>
inline constexpr bool is_fixed = false;
template <class S, class Shape, xt::layout_type L, bool Sharable, class Tag>
inline constexpr bool is_fixed<xt::xfixed_container<S, Shape, L, Sharable, Tag>> = true;

/// A container of the same rank, if that is known at compile time; of the same layout, if T is a container.
template <class T, class To, class Shape = typename T::shape_type>
struct container_like {
  using type = xt::xarray<To, is_container<T> ? T::static_layout : XTENSOR_DEFAULT_LAYOUT>;
};
template <class T, class To, class Size, std::size_t N>
struct container_like<T, To, std::array<Size, N>> {
  using type = xt::xtensor<To, N, is_container<T> ? T::static_layout : XTENSOR_DEFAULT_LAYOUT>;
};
template <class S, class Shape, xt::layout_type L, bool Sharable, class Tag, class To, class ShapeType>
struct container_like<xt::xfixed_container<S, Shape, L, Sharable, Tag>, To, ShapeType> {
  using type = xt::xtensor_fixed<To, Shape, L, Sharable>;
};

}  // namespace detail::xtensor

template <class T>
struct tensor_traits<T, std::enable_if_t<xt::is_xexpression<T>::value>> {
  static_assert(detail::is_detected_v<detail::xtensor::strided_t, T>,
                "headroom: an xtensor expression without data and strides has no elements to work on: give it to xt::eval");
  using value_type = std::remove_const_t<typename T::value_type>;
  static constexpr bool is_view = !detail::xtensor::is_container<T> && !detail::xtensor::is_fixed<T>;

  template <class Tensor>
  static auto* data(Tensor& tensor) {
    using Element = std::remove_pointer_t<decltype(std::declval<T&>().data())>;
    auto* first = tensor.data() + static_cast<std::ptrdiff_t>(tensor.data_offset());
    if constexpr (is_view) {
      return const_cast<Element*>(first);  // a view is as const as what it looks at, not as its own variable
    } else {
      return first;
    }
  }
  static std::size_t size(const T& tensor) { return static_cast<std::size_t>(tensor.size()); }
  static Layout layout(const T& tensor) {
    Layout layout;
    for (std::size_t i = 0; i < tensor.dimension(); ++i) {
      layout.push(static_cast<std::ptrdiff_t>(tensor.shape(i)), static_cast<std::ptrdiff_t>(tensor.strides()[i]));
    }
    return layout;
  }

  template <class To>
  using rebind = typename detail::xtensor::container_like<T, To>::type;
  template <class To>
  static rebind<To> like(const T& tensor) {
    rebind<To> result;
    if constexpr (rebind<To>::static_layout == xt::layout_type::dynamic) {
      result.resize(tensor.shape(), tensor.strides());
    } else if constexpr (!detail::xtensor::is_fixed<rebind<To>>) {
      result.resize(tensor.shape());
    }
    return result;
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
