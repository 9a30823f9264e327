#include "gpu/fp8.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace headroom;

TEST_CASE("gpu::TensorScales: codes, scales and histories are those of the CPU") {
  CHECK(fp8::compare(100) == 0);
}

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
    CHECK((shim::launches == launches + 1 && static_cast<float>(code) == 3.0F &&
           scales.inverse_scales()[0] == 1.0F));
    *scales.max_abs() = 7.0F;  // of another rank
    scales.update(nullptr);
    CHECK((shim::launches == launches + 2 && scales.scales()[0] == 64.0F &&
           scales.inverse_scales()[0] == 1.0F));
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
  CHECK(MESSAGE_OF(Delayed({{{&element, 1, dtype_code::fp8_e4m3}, &code}})) ==
        "headroom: tensors[0].dtype is none of fp16, bf16, fp32 and fp64");
  float8_e4m3 codes[8];
  const auto message = [&](float* data, float8_e4m3* first, float8_e4m3* second) {
    return MESSAGE_OF(Delayed({{{data, 1}, first}, {{&element, 1}, second}}));
  };
  CHECK(message(&element, codes, codes + 1).empty());  // tensors may be the same
  CHECK(message(&element, codes, codes) ==
        "headroom: tensors[0].codes and tensors[1].codes overlap; list each tensor once, with its "
        "own destination");
  CHECK(message(&element, codes, nullptr) == "headroom: tensors[1].codes is null");
  CHECK(message(nullptr, codes, codes) == "headroom: tensors[0].data is null");
  shim::strange = codes;
  CHECK(message(&element, codes, codes + 1) ==
        "headroom: tensors[0].codes is memory that device 0 cannot access: of the host and not "
        "registered, or of another device");
  shim::strange = nullptr;
  shim::loaded.clear();
  Delayed scales({{{&element, 1}, &code}});
  Current current({{{&element, 1}, &code}});
  shim::late_loads = 0;
  scales.quantize(nullptr);
  scales.update(nullptr);
  current.quantize(nullptr);
  CHECK(shim::late_loads == 0);
  shim::device = 1;
  for (const char* verb : {"quantize", "update"})
    CHECK(support::logic_error_of([&] {
            verb[0] == 'q' ? scales.quantize(nullptr) : scales.update(nullptr);
          }) == "headroom: " + std::string(verb) +
                    ": this object is of device 0, but device 1 is current; call cudaSetDevice");
  shim::device = 0;
  CHECK(MESSAGE_OF(Delayed(std::vector<Delayed::Tensor>(), DelayedScaling{0}))
            .find("headroom: history") == 0);
}
