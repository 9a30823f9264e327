// expect: headroom: complex numbers are not supported
// expect: headroom::span<float>
#include <headroom/dtype/span.hpp>
#include <headroom/ops/measure.hpp>

#include <complex>
#include <vector>

double norm(const std::vector<std::complex<float>>& tree) {
#ifdef HEADROOM_CONTROL
  return headroom::global_norm(headroom::span<const float>(reinterpret_cast<const float*>(tree.data()), 2 * tree.size()));
#else
  return headroom::global_norm(tree);
#endif
}
