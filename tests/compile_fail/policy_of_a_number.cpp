// expect: or LossScaleConfig{scale}
#include <headroom/headroom.hpp>

#ifdef HEADROOM_CONTROL
headroom::DynamicLossScale policy(headroom::LossScaleConfig{65536.0F}), braces({65536.0F});
#else
headroom::DynamicLossScale policy(65536.0F);
#endif
