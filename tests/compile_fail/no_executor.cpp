// expect: headroom: the first argument of a verb, before its trees, is an executor
#include <headroom/ops/measure.hpp>

#include <vector>

double norm(const std::vector<float>& tree) {
#ifdef HEADROOM_CONTROL
  return headroom::measure(headroom::parallel(2), tree).norm;
#else
  return headroom::measure(2, tree).norm;
#endif
}
