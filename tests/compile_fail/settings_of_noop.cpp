// expect: headroom: this needs a policy whose config() is or has a LossScaleConfig
#include <headroom/headroom.hpp>

#ifdef HEADROOM_CONTROL
using Policy = headroom::DynamicLossScale;
#else
using Policy = headroom::NoOpLossScale;
#endif

void configure(headroom::GradScaler<Policy>& scaler) { scaler.set_growth_interval(500); }
