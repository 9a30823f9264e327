// expect: headroom: the first argument of a verb, before its trees, is an executor
#include <headroom/headroom.hpp>

#include <vector>

void unscale(const headroom::DynamicLossScale& scaler, std::vector<float>& tree) {
#ifdef HEADROOM_CONTROL
  (void)scaler.unscale_in_place(headroom::parallel(2), tree);
#else
  (void)scaler.unscale_in_place(2, tree);
#endif
}
