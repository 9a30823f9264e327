// expect: Executor
// expect: (void)scaler.scale(tree<1>
// expect: (void)scaler.unscale<float>(tree<2>
// expect: (void)scaler.unscale_in_place(tree<3>
// expect: (void)scaler.unscale_into(tree<4>
// expect: (void)scaler.accumulate_into(tree<5>
// expect: (void)scaler.unscale_and_clip_in_place(tree<6>
// expect: (void)noop.scale(tree<7>
// errors: 7
#include <headroom/headroom.hpp>

#include <array>

// A compiler shows the line of each error.
template <std::size_t N>
std::array<float, N> tree;

void verbs(const headroom::DynamicLossScale& scaler, const headroom::NoOpLossScale& noop) {
#ifdef HEADROOM_CONTROL
  (void)scaler.scale(tree<1>);
  (void)scaler.unscale<float>(tree<2>);
  (void)scaler.unscale_in_place(tree<3>);
  (void)scaler.unscale_into(tree<4>, tree<4>);
  (void)scaler.accumulate_into(tree<5>, tree<5>);
  (void)scaler.unscale_and_clip_in_place(tree<6>, 1.0);
  (void)noop.scale(tree<7>);
#else
  (void)scaler.scale(tree<1>, scaler.loss_scale());
  (void)scaler.unscale<float>(tree<2>, scaler.loss_scale());
  (void)scaler.unscale_in_place(tree<3>, scaler.loss_scale());
  (void)scaler.unscale_into(tree<4>, tree<4>, scaler.loss_scale());
  (void)scaler.accumulate_into(tree<5>, tree<5>, scaler.loss_scale());
  (void)scaler.unscale_and_clip_in_place(tree<6>, scaler.loss_scale(), 1.0);
  (void)noop.scale(tree<7>, noop.loss_scale());
#endif
}
