// expect: of a scale: LossScaleConfig{scale}, HysteresisConfig{{scale}}
// errors: 2
#include <headroom/headroom.hpp>

#ifdef HEADROOM_CONTROL
headroom::DynamicLossScale dynamic(headroom::LossScaleConfig{65536.0F}), braces({65536.0F});
headroom::HysteresisScale hysteresis(headroom::HysteresisConfig{{65536.0F}});
#else
headroom::DynamicLossScale dynamic(65536.0F);
headroom::HysteresisScale hysteresis(65536.0);
#endif
