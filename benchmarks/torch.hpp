#pragma once

#include <cstddef>
#include <headroom/headroom.hpp>

// libtorch's tensor operations on plain memory. Separate from the rest, because its headers take a
// minute to compile.

namespace contenders {

void torch_in_one_thread();

template <class T>
bool torch_unscale(T* values, std::size_t n, float inverse_scale);
template <class T>
bool torch_unscale(T* source, float* destination, std::size_t n, float inverse_scale);
template <class T>
bool torch_all_finite(T* values, std::size_t n);
template <class T>
void torch_cast(float* source, T* destination, std::size_t n);
float torch_norm(float* values, std::size_t n);

}  // namespace contenders
