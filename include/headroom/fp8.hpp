#pragma once

// Tensors in 8 bits, with a scale for each tensor or for each block of 32 elements. See docs/fp8.md.

#include <headroom/dtype/float8.hpp>
#include <headroom/fp8/mx.hpp>
#include <headroom/fp8/quantize.hpp>
#include <headroom/fp8/rules.hpp>
#include <headroom/fp8/tensor_scales.hpp>
