// expect: headroom: this policy does not adapt
#include <headroom/headroom.hpp>

#ifdef HEADROOM_CONTROL
using Policy = headroom::DynamicLossScale;
#else
using Policy = headroom::NoOpLossScale;
#endif

void configure(headroom::GradScaler<Policy>& scaler) { scaler.set_growth_interval(500); }
