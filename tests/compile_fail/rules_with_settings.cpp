// expect: both rules have settings of their own
#include <headroom/policy/hysteresis.hpp>

struct Growth : headroom::GrowAfterFiniteSteps {
#ifdef HEADROOM_CONTROL
  using Config = headroom::HysteresisConfig;
#else
  using Config = headroom::ToleranceConfig;
#endif
  using headroom::GrowAfterFiniteSteps::GrowAfterFiniteSteps;
};

using Config = headroom::BasicDynamicLossScale<Growth, headroom::BackOffAfterHysteresis<>>::Config;

int main() { return sizeof(Config) == 0 ? 1 : 0; }
