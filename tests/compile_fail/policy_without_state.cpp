// expect: from_state_dict
#include <headroom/headroom.hpp>

struct Mine {
  float loss_scale() const { return 1.0F; }
  Mine adjust(bool) const { return *this; }
  Mine adjust(const headroom::GradientReport&) const { return *this; }
#ifdef HEADROOM_CONTROL
  static Mine from_state_dict(const headroom::StateDict&) { return {}; }
#endif
};

void load(headroom::GradScaler<Mine>& scaler, const headroom::StateDict& state) {
  scaler.load_state_dict(state);
}
