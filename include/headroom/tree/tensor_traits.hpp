#pragma once

#include <headroom/detail/detect.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/tree/layout.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

/// Makes a class template Tensor<T> a leaf: write `HEADROOM_TENSOR(users::Tensor)` in the global namespace. Tensor<T> needs
/// data(), also for a const tensor, size(), and a constructor from a size. Its copies must have elements of their own. A new
/// tensor of another dtype is Tensor<To>(tensor.size()). For tensors with a shape or strides, specialise tensor_traits instead.
#define HEADROOM_TENSOR(Tensor)    \
  template <class HeadroomElement> \
  struct headroom::tensor_traits<Tensor<HeadroomElement>> : ::headroom::detail::owning_tensor<Tensor, HeadroomElement> {};

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// How to reach the elements of a tensor type. A specialisation makes the type a leaf:
///
///     template <> struct headroom::tensor_traits<MyTensor> {
///       using value_type = float;                                          // without const
///       static float* data(MyTensor& t) { return t.data(); }
///       static const float* data(const MyTensor& t) { return t.data(); }
///       static std::size_t size(const MyTensor& t) { return t.size(); }    // elements
///     };
///
/// That is enough for a tensor with contiguous elements. The rest is optional:
///
///     static Layout layout(const MyTensor&);            // shape and strides, for tensors that may have gaps or another order
///     static constexpr bool is_view = true;             // copies share their elements; false: each has its own
///     template <class To> using rebind = ...;           // the tensor type with elements of To
///     template <class To> static rebind<To> like(const MyTensor&);   // a new one of the same shape, its elements undefined
///     static bool same_structure(const MyTensor&, const Other&);     // more than the layout: the pattern of a sparse matrix
///     static const char* obstacle(const MyTensor&);     // why this one cannot be walked, null if it can; asked before layout
///
/// Without is_view, headroom assumes that copies have elements of their own. To be safe, it does not overwrite temporaries, and
/// verbs in place check that no two leaves start at one address.
///
/// A verb throws std::invalid_argument, naming the path, if data() is null and the size is not 0, if there are more than 16
/// dimensions, or if there is an obstacle. The second parameter is for std::enable_if_t, to specialise families of types.
template <class T, class Enable = void>
struct tensor_traits {
  using not_specialized = void;
};

namespace detail {

template <class T>
using bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T>
using not_tensor_t = typename tensor_traits<T>::not_specialized;
template <class T>
using layout_t = decltype(tensor_traits<T>::layout(std::declval<const T&>()));
template <class T>
using is_view_t = std::enable_if_t<tensor_traits<T>::is_view>;
template <class T>
using says_is_view_t = decltype(tensor_traits<T>::is_view);

template <class T>
inline constexpr bool has_tensor_traits_v = !is_detected_v<not_tensor_t, T>;
template <class T>
inline constexpr bool has_layout_v = is_detected_v<layout_t, T>;
/// Whether copies share their elements.
template <class T>
inline constexpr bool is_view_v = is_detected_v<is_view_t, T>;

// ---- leaves, scalars among them ----

/// Number of elements of a leaf.
template <class Leaf>
[[nodiscard]] std::size_t size_of(const Leaf& leaf) {
  if constexpr (is_dtype_v<Leaf>) {
    return 1;
  } else {
    return static_cast<std::size_t>(tensor_traits<Leaf>::size(leaf));
  }
}

/// Pointer to the first element of a leaf; to const if the leaf or its elements are const.
template <class Leaf>
[[nodiscard]] auto* data_of(Leaf& leaf) {
  if constexpr (is_dtype_v<Leaf>) {
    return std::addressof(leaf);
  } else {
    return tensor_traits<std::remove_const_t<Leaf>>::data(leaf);
  }
}

template <class Leaf>
[[nodiscard]] Layout layout_of(const Leaf& leaf) {
  if constexpr (has_layout_v<Leaf>) {
    return tensor_traits<Leaf>::layout(leaf);
  } else {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(detail::size_of(leaf)), 1);
    return layout;
  }
}

// ---- to derive a specialisation from ----

/// For types that std::data and std::size accept.
template <class T>
struct contiguous_tensor {
  using value_type = std::remove_cv_t<T>;
  static constexpr bool is_view = false;
  template <class Tensor>
  static constexpr auto* data(Tensor& tensor) noexcept {
    return std::data(tensor);
  }
  template <class Tensor>
  static constexpr std::size_t size(const Tensor& tensor) noexcept {
    return static_cast<std::size_t>(std::size(tensor));
  }
};
/// See HEADROOM_TENSOR. New tensors have the type Tensor<To>, also those of a view.
template <template <class...> class Tensor, class T>
struct owning_tensor : contiguous_tensor<T> {
  template <class To>
  using rebind = Tensor<To>;
  template <class To, class Leaf>
  static Tensor<To> like(const Leaf& tensor) {
    return Tensor<To>(tensor.size());
  }
};

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
