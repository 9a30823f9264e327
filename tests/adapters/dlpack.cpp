#include <headroom/adapters/dlpack.hpp>
#include <headroom/headroom.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using headroom::dlpack::DLManagedTensorVersioned;
using headroom::dlpack::DLTensor;

namespace {

// The offsets of DLPack's ABI on 64-bit machines.
static_assert(sizeof(void*) != 8 ||
              (offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
               offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
               offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40 &&
               sizeof(DLTensor) == 48));
static_assert(sizeof(void*) != 8 || (offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                                     offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                                     offsetof(DLManagedTensorVersioned, flags) == 24 &&
                                     offsetof(DLManagedTensorVersioned, dl_tensor) == 32));

/// 2 x 3 floats, the first of 8.
struct Floats {
  std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  std::int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  DLTensor tensor{};

  Floats() {
    tensor.data = values.data();
    tensor.device.device_type = decltype(tensor.device.device_type)(1);
    tensor.ndim = 2;
    tensor.dtype = {2, 32, 1};
    tensor.shape = shape;
    tensor.strides = strides;
  }
};

}  // namespace

TEST_CASE("a DLTensor is a tree: its offset, strides and dtype count") {
  Floats f;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 5.0);
  f.tensor.byte_offset = 4;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 6.0);
  f.strides[0] = 4;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 7.0);
  CHECK(headroom::unscale_in_place<headroom::allow_fp16_gradients>(
            std::vector{from_dlpack(f.tensor)}, 2.0F)
            .max_abs == 3.5);
  CHECK(f.values == std::vector<float>{0, 0.5F, 1, 1.5F, 4, 2.5F, 3, 3.5F});
  f.tensor.strides = nullptr;  // row-major
  f.tensor.byte_offset = 0;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 4.0);
  f.tensor.ndim = 0;  // a scalar
  f.tensor.shape = nullptr;
  CHECK(headroom::element_count(from_dlpack(f.tensor)) == 1);

  std::vector<half> halves(8, half(2.0F));
  f.tensor.data = halves.data();
  f.tensor.dtype.bits = 16;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 2.0);
  f.tensor.dtype.code = 0;  // int16
  CHECK(headroom::leaf_count(from_dlpack(f.tensor)) == 0);
}

TEST_CASE("tensors on other devices, with vectors or without a shape are refused") {
  const Floats good;
  const auto message = [&](const auto& change) {
    DLTensor tensor = good.tensor;
    change(tensor);
    return support::message_of([&] { (void)from_dlpack(tensor); });
  };
  using DeviceType = decltype(DLTensor{}.device.device_type);
  for (const int device : {1, 3, 11}) {
    CHECK(message([&](DLTensor& t) { t.device.device_type = DeviceType(device); }).empty());
  }
  CHECK_THAT(message([](DLTensor& t) { t.device.device_type = DeviceType(2); }),
             ContainsSubstring("device_type 2"));
  CHECK_THAT(message([](DLTensor& t) { t.dtype.lanes = 0; }),
             ContainsSubstring("has 0 lanes; it must have 1"));
  CHECK_THAT(message([](DLTensor& t) { t.dtype.lanes = 2; }),
             ContainsSubstring("has 2 lanes; it must have 1"));
  CHECK_THAT(message([](DLTensor& t) { t.ndim = -1; }), ContainsSubstring("ndim -1"));
  CHECK_THAT(message([](DLTensor& t) { t.shape = nullptr; }),
             ContainsSubstring("ndim 2 without a shape"));
  Floats odd;
  odd.tensor.dtype.bits = 4;
  CHECK_INVALID("has a dtype that is not supported: dtype code 2 of 4 bits",
                headroom::measure(from_dlpack(odd.tensor)));
}

TEST_CASE("a tensor without memory stays null, whatever its offset") {
  Floats f;
  f.tensor.data = nullptr;
  f.tensor.byte_offset = 4;
  CHECK(from_dlpack(f.tensor).data == nullptr);
  CHECK_INVALID("null", headroom::measure(from_dlpack(f.tensor)));
  f.shape[0] = 0;
  CHECK(headroom::measure(from_dlpack(f.tensor)).max_abs == 0.0);
}

TEST_CASE("verbs that write refuse a managed tensor that is read-only") {
  Floats f;
  DLManagedTensorVersioned managed{};
  managed.version.major = 1;
  managed.dl_tensor = f.tensor;
  CHECK(headroom::unscale_in_place<headroom::allow_fp16_gradients>(from_dlpack(managed), 1.0F)
            .max_abs == 5.0);
  managed.flags = 1;
  CHECK(headroom::measure(from_dlpack(managed)).max_abs == 5.0);
  CHECK_INVALID("the tree is read-only", headroom::scale_in_place(from_dlpack(managed), 2.0));
  managed.flags = 2;  // a copy
  CHECK(headroom::unscale_in_place<headroom::allow_fp16_gradients>(from_dlpack(managed), 1.0F)
            .max_abs == 5.0);
  any_tensor unversioned = from_dlpack(f.tensor);
  unversioned.is_read_only = true;
  CHECK_INVALID("the tree is read-only", headroom::scale_in_place(unversioned, 2.0));
  for (const std::uint32_t version : {0U, 2U}) {
    managed.version.major = version;
    CHECK_INVALID("version " + std::to_string(version), from_dlpack(managed));
  }
}
