#pragma once

#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <valarray>

// std::valarray as a leaf.

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <class T>
struct tensor_traits<std::valarray<T>> : detail::owning_tensor<std::valarray, T> {
  template <class Array>
  static auto* data(Array& array) {
    return array.size() == 0 ? nullptr : &array[0];
  }
  static std::size_t size(const std::valarray<T>& array) { return array.size(); }
};

HEADROOM_DETAIL_END_NAMESPACE
