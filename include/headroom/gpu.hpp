#pragma once

// Loss scaling and 8-bit formats in the memory of a GPU: see docs/gpu.md.

#include <headroom/gpu/gradients.hpp>
#include <headroom/gpu/scaler.hpp>
#include <headroom/gpu/tensor_scales.hpp>
