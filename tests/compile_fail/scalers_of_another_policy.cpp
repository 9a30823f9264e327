// expect: write GradScaler(policy), without <>
// expect: write AsyncGradScaler(policy), without <>
// errors: 3
#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

void train(const char* name) {
#ifdef HEADROOM_CONTROL
  headroom::GradScaler any(headroom::make_loss_scale(name));
  headroom::GradScaler constant(headroom::ConstantLossScale(2.0F), false);
  headroom::AsyncGradScaler async(headroom::make_loss_scale(name));
  headroom::GradScaler<headroom::AnyLossScale> holds(headroom::DynamicLossScale{});
  headroom::AsyncGradScaler<headroom::AnyLossScale> too(headroom::ConstantLossScale(2.0F));
#else
  headroom::GradScaler<> any(headroom::make_loss_scale(name));
  headroom::GradScaler<> constant(headroom::ConstantLossScale(2.0F), false);
  headroom::AsyncGradScaler<> async(headroom::make_loss_scale(name));
#endif
}
