// expect: this type is neither a leaf nor a branch of a tree
#include <headroom/ops/measure.hpp>

#include <memory>

#ifdef HEADROOM_CONTROL
using Tensor = std::unique_ptr<float>;
#else
using Tensor = std::unique_ptr<float[]>;
#endif

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
