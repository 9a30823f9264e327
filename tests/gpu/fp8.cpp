#include "gpu/fp8.hpp"

#include <stdexcept>
#include <utility>

#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace headroom;
using support::message_of;

TEST_CASE("gpu::TensorScales: codes, scales and histories are those of the CPU") { CHECK(fp8::compare(100) == 0); }

TEST_CASE("gpu::TensorScales: launches, a move, no tensors, errors") {
  float element = 3.0F;
  float8_e4m3 code;
  using Delayed = gpu::TensorScales<float8_e4m3>;
  using Current = gpu::TensorScales<float8_e4m3, CurrentScaling>;
  {
    Delayed before({{{&element, 1}, &code}});
    const float* const address = before.scales();
    Delayed scales = std::move(before);
    CHECK(scales.scales() == address);
    const unsigned launches = shim::launches;
    scales.quantize(nullptr);
    CHECK((shim::launches == launches + 1 && static_cast<float>(code) == 3.0F && scales.inverse_scales()[0] == 1.0F));
    *scales.max_abs() = 7.0F;  // of another rank
    scales.update(nullptr);
    CHECK((shim::launches == launches + 2 && scales.scales()[0] == 64.0F && scales.inverse_scales()[0] == 1.0F));
    Current current({{{&element, 1}, &code}});
    current.quantize(nullptr);
    CHECK((shim::launches == launches + 5 && static_cast<float>(code) == 448.0F));
    const float scale = current.scales()[0];
    current.update(nullptr);
    CHECK(current.scales()[0] == scale);
    shim::next_error = cudaErrorInvalidValue;
    CHECK_THROWS_AS(scales.quantize(nullptr), std::runtime_error);
  }
  CHECK(shim::allocations == 0);
  Delayed none{std::vector<Delayed::Tensor>()};
  none.quantize(nullptr);
  none.update(nullptr);
  Current{std::vector<Current::Tensor>()}.quantize(nullptr);
  CHECK(message_of([&] {
          Delayed({{{&element, 1, dtype_code::fp8_e4m3}, &code}});
        }) == "headroom: tensors[0].dtype is none of fp16, bf16, fp32 and fp64");
  CHECK(message_of([&] { Delayed(std::vector<Delayed::Tensor>(), DelayedScaling{0}); }).find("headroom: history") == 0);
}
