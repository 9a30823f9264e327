// expect: headroom: long double is not supported
#include <headroom/policy/dynamic.hpp>

#ifdef HEADROOM_CONTROL
using Loss = double;
#else
using Loss = long double;
#endif

Loss scale(const headroom::DynamicLossScale& scaler, Loss loss) { return scaler.scale(loss); }
