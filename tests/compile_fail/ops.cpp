#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

// case: any_tensor_cast
// expect: no new tensor can be made for this verb's result, as of an any_tensor, which is a view: use the
void narrow(const std::vector<headroom::any_tensor>& tensors,
            std::vector<std::vector<headroom::half>>& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(tensors, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(tensors);
#endif
}

// case: cast_without_rebind
// expect: this struct has no counterpart with elements of another dtype. Use the _into form of the verb
struct Model {
  std::vector<float> weight;
  HEADROOM_TREE(Model, weight)
};
struct Model16 {
  std::vector<headroom::half> weight;
  HEADROOM_TREE(Model16, weight)
};

void narrow(const Model& model, Model16& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(model, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(model);
#endif
}

// case: e8m0_checked
// expect: headroom: only quantize_blocks_into and dequantize_blocks_into take e8m0 and float4_e2m1x2
#ifdef HEADROOM_CONTROL
using Element = headroom::float8_e4m3;
#else
using Element = headroom::e8m0;
#endif

bool check(const std::vector<Element>& scales) { return headroom::all_finite(scales); }

// case: integers_checked
// expect: headroom: there is no floating-point number in this type
// expect: headroom::as_half(pointer, size)
bool check(const std::vector<std::uint16_t>& bits) {
#ifdef HEADROOM_CONTROL
  return headroom::all_finite(headroom::as_half(bits.data(), bits.size()));
#else
  return headroom::all_finite(bits);
#endif
}

// case: temporaries
// expect: headroom: this verb writes into a temporary, so the result would be lost
// errors: 29
using namespace headroom;

// Types that differ from line to line, because a compiler reports a type once.
template <class T>
T by_value();
template <class T>
T& by_reference();
#ifdef HEADROOM_CONTROL
#define GRADS by_reference<std::array<float, __LINE__>>()
#define CODES by_reference<std::array<float8_e4m3, __LINE__>>()
#else
#define GRADS by_value<std::array<float, __LINE__>>()
#define CODES by_value<std::array<float8_e4m3, __LINE__>>()
#endif

void train(const std::vector<float>& grads, const std::vector<half>& scaled,
           std::vector<float8_e4m3>& codes, std::vector<float>& scales, std::vector<float>& max_abs,
           const NoOpLossScale& no, const DynamicLossScale& dynamic, const AnyLossScale& any) {
  scale_in_place(GRADS, 2.0);                                                       // error
  (void)unscale_in_place(GRADS, 2.0F);                                              // error
  (void)unscale_and_clip_in_place(GRADS, 2.0F, 1.0);                                // error
  (void)clip_by_global_norm(GRADS, 1.0);                                            // error
  (void)unscale_into(scaled, GRADS, 2.0F);                                          // error
  (void)accumulate_into(scaled, GRADS, 2.0F);                                       // error
  cast_into(scaled, GRADS);                                                         // error
  cast_into(scaled, GRADS, saturate);                                               // error
  dequantize_into(codes, GRADS, scales);                                            // error
  (void)quantize_into(scaled, CODES, scales, max_abs);                              // error
  (void)TensorScales<float8_e4m3>(scaled).quantize_into(scaled, CODES);             // error
  (void)quantize_blocks_into(grads, CODES, scales, {1, 0}, TorchaoBlockScaling());  // error
  (void)quantize_blocks_into(grads, codes, GRADS, {1, 0}, TorchaoBlockScaling());   // error
  dequantize_blocks_into(codes, scales, GRADS, {1, 0});                             // error
  no.scale_in_place(GRADS);                                                         // error
  (void)no.unscale_in_place(GRADS);                                                 // error
  (void)no.unscale_and_clip_in_place(GRADS, 1.0);                                   // error
  (void)no.unscale_into(scaled, GRADS);                                             // error
  (void)no.accumulate_into(scaled, GRADS);                                          // error
  dynamic.scale_in_place(GRADS);                                                    // error
  (void)dynamic.unscale_in_place(GRADS);                                            // error
  (void)dynamic.unscale_and_clip_in_place(GRADS, 1.0);                              // error
  (void)dynamic.unscale_into(scaled, GRADS);                                        // error
  (void)dynamic.accumulate_into(scaled, GRADS);                                     // error
  any.scale_in_place(GRADS);                                                        // error
  (void)any.unscale_in_place(GRADS);                                                // error
  (void)any.unscale_and_clip_in_place(GRADS, 1.0);                                  // error
  (void)any.unscale_into(scaled, GRADS);                                            // error
  (void)any.accumulate_into(scaled, GRADS);                                         // error
}

// case: tensor_without_rebind
// expect: no new tensor can be made for this verb's result: use its _into or _in_place form
struct Tensor {
  float elements[4];
};
template <>
struct headroom::tensor_traits<Tensor> {
  using value_type = float;
  static float* data(Tensor& tensor) { return tensor.elements; }
  static const float* data(const Tensor& tensor) { return tensor.elements; }
  static std::size_t size(const Tensor&) { return 4; }
};

void narrow(const Tensor& tensor, std::vector<headroom::half>& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(tensor, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(tensor);
#endif
}

// case: trees_of_different_kinds
// expect: the two trees differ in structure
#ifdef HEADROOM_CONTROL
using Destination = std::tuple<std::vector<float>, double>;
#else
using Destination = std::tuple<std::vector<float>, std::vector<std::vector<float>>>;
#endif

void convert(const std::tuple<std::vector<float>, float>& source, Destination& destination) {
  headroom::cast_into(source, destination);
}

// case: tuples_of_other_sizes
// expect: the two trees differ in structure: structs or tuples with different numbers of parts
#ifdef HEADROOM_CONTROL
using Destination = std::tuple<float, float>;
#else
using Destination = std::tuple<float>;
#endif

void convert(const std::tuple<float, float>& source, Destination& destination) {
  headroom::cast_into(source, destination);
}

// case: unscale_any_tensor
// expect: no new tensor can be made for this verb's result, as of an any_tensor, which is a view: use the
void train(headroom::GradScaler<>& scaler, std::vector<headroom::any_tensor>& gradients) {
#ifdef HEADROOM_CONTROL
  (void)headroom::unscale_in_place(gradients, scaler.get_scale());
#else
  (void)headroom::unscale(gradients, scaler.get_scale());
#endif
}

// case: unscale_to_int
// expect: headroom: cast<To> and unscale<To> make floating-point numbers
#ifdef HEADROOM_CONTROL
using To = float;
#else
using To = int;
#endif

auto unscale(const headroom::DynamicLossScale& scaler, const std::vector<float>& tree) {
  return scaler.unscale<To>(tree).grads;
}

// case: write_to_const_leaf
// expect: this verb writes into the tree, and a leaf of it is const
#ifdef HEADROOM_CONTROL
void scale(const headroom::DynamicLossScale& policy, std::vector<float>& tree) {
#else
void scale(const headroom::DynamicLossScale& policy, const std::vector<float>& tree) {
#endif
  policy.scale_in_place(tree);
}

// case: write_to_const_struct
// expect: this verb writes into the tree, and a leaf of it is const
// The references that children(T&) returns are not const; the struct is.
struct Model {
  std::vector<float> weight;
  HEADROOM_TREE(Model, weight)
};

#ifdef HEADROOM_CONTROL
void unscale(const headroom::DynamicLossScale& policy, const Model& source, Model& destination) {
#else
void unscale(const headroom::DynamicLossScale& policy, const Model& source,
             const Model& destination) {
#endif
  (void)policy.unscale_into(source, destination);
}
