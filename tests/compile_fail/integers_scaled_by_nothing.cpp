// expect: headroom: there is no floating-point number in this type
#include <headroom/policy/constant.hpp>

#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(const headroom::NoOpLossScale& scaler) { return scaler.scale(one); }
