// expect: no new tensor can be made for this verb's result, as of an any_tensor, which is a view: use the
#include <headroom/headroom.hpp>

#include <vector>

void train(headroom::GradScaler<>& scaler, std::vector<headroom::any_tensor>& gradients) {
#ifdef HEADROOM_CONTROL
  (void)headroom::unscale_in_place(gradients, scaler.get_scale());
#else
  (void)headroom::unscale(gradients, scaler.get_scale());
#endif
}
