// expect: headroom: there is no floating-point number in this type
// expect: For a 1 write 1.0f
#include <headroom/policy/dynamic.hpp>

#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(const headroom::DynamicLossScale& scaler) { return scaler.scale(one); }
