// expect: headroom: a copy of this tree shares parts with it
#include <headroom/dtype/span.hpp>
#include <headroom/policy/dynamic.hpp>

#include <tuple>
#include <utility>

/// Of a dtype known at run time only.
struct Tensor {
  float* data;
};
template <>
struct headroom::tree_traits<Tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;
  template <class F>
  static void with_view(const Tensor& tensor, F&& f) {
    f(span<float>(tensor.data, 1));
  }
  static Tensor scaled(const Tensor& tensor, float) { return tensor; }
};

void scale(const headroom::DynamicLossScale& policy, Tensor& first, Tensor& second) {
#ifdef HEADROOM_CONTROL
  (void)policy.scale(std::make_tuple(first, second));
#else
  (void)policy.scale(std::tie(first, second));
#endif
}
