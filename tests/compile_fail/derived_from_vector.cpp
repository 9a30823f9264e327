// expect: headroom: this class is derived from a tensor or container
// expect: template <> struct headroom::tensor_traits<T> : headroom::tensor_traits<Base> {};
#include <headroom/dtype/half.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/policy/constant.hpp>

#include <vector>

struct MyVec : std::vector<float> {};
#ifdef HEADROOM_CONTROL
template <>
struct headroom::tensor_traits<MyVec> : headroom::tensor_traits<std::vector<float>> {};
#endif

headroom::GradientReport step(MyVec& gradient) {
  return headroom::all_finite(gradient) ? headroom::ConstantLossScale(2.0F).unscale_in_place(gradient)
                                        : headroom::ConstantLossScale(2.0F).unscale<headroom::half>(gradient).report;
}
