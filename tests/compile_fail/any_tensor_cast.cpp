// expect: an any_tensor is a view, so no new one can be made for this verb's result: use its _into or _in_place form
#include <headroom/dtype/half.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <vector>

void narrow(const std::vector<headroom::any_tensor>& tensors, std::vector<std::vector<headroom::half>>& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(tensors, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(tensors);
#endif
}
