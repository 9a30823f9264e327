// expect: write (LossScaleConfig{scale}), or ConstantLossScale for one that stays
// errors: 3
#include <headroom/headroom.hpp>

#ifdef HEADROOM_CONTROL
headroom::DynamicLossScale dynamic(headroom::LossScaleConfig{65536.0F});
headroom::AmaxLossScale amax;
headroom::HysteresisScale hysteresis;
#else
headroom::DynamicLossScale dynamic(65536.0F);
headroom::AmaxLossScale amax(65536);
headroom::HysteresisScale hysteresis(65536.0);
#endif
