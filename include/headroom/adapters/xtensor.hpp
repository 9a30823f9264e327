#pragma once

#include <headroom/config.hpp>
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

template <class T, class = void>
struct is_strided : std::false_type {};
template <class T>
struct is_strided<T, std::void_t<decltype(std::declval<const T&>().data()), decltype(std::declval<const T&>().strides()),
                                 decltype(std::declval<const T&>().data_offset())>> : std::true_type {};

/// The containers, which own their elements, and their counterparts for another element type.
template <class T, class To>
struct container {
  static constexpr bool is_container = false;
};
template <class Storage, xt::layout_type L, class Shape, class Tag, class To>
struct container<xt::xarray_container<Storage, L, Shape, Tag>, To> {
  static constexpr bool is_container = true;
  using type = xt::xarray<To, L>;
};
template <class Storage, std::size_t N, xt::layout_type L, class Tag, class To>
struct container<xt::xtensor_container<Storage, N, L, Tag>, To> {
  static constexpr bool is_container = true;
  using type = xt::xtensor<To, N, L>;
};
template <class S, class Shape, xt::layout_type L, bool Sharable, class Tag, class To>
struct container<xt::xfixed_container<S, Shape, L, Sharable, Tag>, To> {
  static constexpr bool is_container = true;
  using type = xt::xtensor_fixed<To, Shape, L, Sharable>;
};

/// For adaptors and views, a container of the same rank if that is known at compile time.
template <class Shape, class To>
struct container_of_rank {
  using type = xt::xarray<To>;
};
template <class Size, std::size_t N, class To>
struct container_of_rank<std::array<Size, N>, To> {
  using type = xt::xtensor<To, N>;
};

template <class T, class To>
constexpr auto new_container() {
  if constexpr (container<T, To>::is_container) {
    return static_cast<typename container<T, To>::type*>(nullptr);
  } else {
    return static_cast<typename container_of_rank<typename T::shape_type, To>::type*>(nullptr);
  }
}

template <class T>
struct is_fixed : std::false_type {};
template <class S, class Shape, xt::layout_type L, bool Sharable, class Tag>
struct is_fixed<xt::xfixed_container<S, Shape, L, Sharable, Tag>> : std::true_type {};

}  // namespace detail::xtensor

template <class T>
struct tensor_traits<T, std::enable_if_t<xt::is_xexpression<T>::value>> {
  static_assert(detail::xtensor::is_strided<T>::value,
                "headroom: an xtensor expression without data and strides has no elements to work on: give it to xt::eval");
  using value_type = std::remove_const_t<typename T::value_type>;
  static constexpr bool is_view = !detail::xtensor::container<T, value_type>::is_container;

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
  using rebind = std::remove_pointer_t<decltype(detail::xtensor::new_container<T, To>())>;
  template <class To>
  static rebind<To> like(const T& tensor) {
    rebind<To> result;
    if constexpr (rebind<To>::static_layout == xt::layout_type::dynamic) {
      result.resize(tensor.shape(), tensor.strides());
    } else if constexpr (!detail::xtensor::is_fixed<rebind<To>>::value) {
      result.resize(tensor.shape());
    }
    return result;
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
