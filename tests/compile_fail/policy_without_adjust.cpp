// expect: P adjust(bool) const and P adjust(const headroom::GradientReport&) const
#include <headroom/headroom.hpp>

struct Mine : headroom::LossScaleVerbs<Mine> {
  float loss_scale() const { return 1.0F; }
#ifdef HEADROOM_CONTROL
  Mine adjust(bool) const { return *this; }
#endif
  Mine adjust(const headroom::GradientReport&) const { return *this; }
};

void train(headroom::GradScaler<Mine>& scaler) { scaler.update(); }
