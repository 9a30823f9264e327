#pragma once

// Tensors in 8 bits, with a scale for each tensor or for each block of 32 elements. See docs/quantize.md.

#include <headroom/dtype/float8.hpp>
#include <headroom/quantize/mx.hpp>
#include <headroom/quantize/tensor_scales.hpp>
