#pragma once

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

#include <cstddef>
#include <type_traits>
#include <utility>

// xtensor's containers (xarray, xtensor, xtensor_fixed), adaptors (xt::adapt) and strided views as leaves, xtl::half_float as a
// dtype. Anything without a data pointer and strides (an expression, a view through a list of indices) is refused at compile
// time: make it a container with xt::eval. New tensors are containers of the same rank.

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <>
struct dtype_traits<xtl::half_float> : detail::has_format<binary16> {};

namespace detail::xtensor {

template <class T>
using strided_t =
    decltype(std::declval<const T&>().data() + std::declval<const T&>().data_offset(), std::declval<const T&>().strides());

template <class Container, class To>
struct with_scalar;
template <class Storage, xt::layout_type L, class Shape, class Tag, class To>
struct with_scalar<xt::xarray_container<Storage, L, Shape, Tag>, To> {
  using type = xt::xarray<To, L>;
};
template <class Storage, std::size_t N, xt::layout_type L, class Tag, class To>
struct with_scalar<xt::xtensor_container<Storage, N, L, Tag>, To> {
  using type = xt::xtensor<To, N, L>;
};
template <class S, class Shape, xt::layout_type L, bool Sharable, class Tag, class To>
struct with_scalar<xt::xfixed_container<S, Shape, L, Sharable, Tag>, To> {
  using type = xt::xtensor_fixed<To, Shape, L, Sharable>;
};

}  // namespace detail::xtensor

template <class T>
struct tensor_traits<T, std::enable_if_t<xt::is_xexpression<T>::value>> {
  static_assert(detail::is_detected_v<detail::xtensor::strided_t, T>,
                "headroom: an xtensor expression without data and strides has no elements to work on: give it to xt::eval");
  using value_type = std::remove_const_t<typename T::value_type>;
  using container = xt::temporary_type_t<T>;
  static constexpr bool is_view = !std::is_same_v<T, container>;

  template <class Tensor>
  static auto* data(Tensor& tensor) {
    // A view is as const as what it looks at, not as its own variable.
    auto& self = const_cast<std::conditional_t<is_view, T, Tensor>&>(tensor);
    return self.data() + static_cast<std::ptrdiff_t>(self.data_offset());
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
  using rebind = typename detail::xtensor::with_scalar<container, To>::type;
  template <class To>
  static rebind<To> like(const T& tensor) {
    constexpr xt::layout_type order = rebind<To>::static_layout;
    rebind<To> result;
    result.resize(tensor.shape(), order == xt::layout_type::dynamic ? XTENSOR_DEFAULT_LAYOUT : order);
    return result;
  }
};

HEADROOM_DETAIL_END_NAMESPACE
