// expect: no new tensor can be made for this verb's result, as of an any_tensor, which is a view: use the
#include <headroom/dtype/half.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <vector>

void narrow(const std::vector<headroom::any_tensor>& tensors,
            std::vector<std::vector<headroom::half>>& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(tensors, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(tensors);
#endif
}
