// expect: headroom: there is no floating-point number in this type
#include <headroom/training/grad_scaler.hpp>

#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(headroom::GradScaler<>& scaler) { return scaler.scale(one); }
