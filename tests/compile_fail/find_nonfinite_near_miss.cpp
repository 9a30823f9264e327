// expect: optimizer_traits has a find_nonfinite that cannot be called
#include <headroom/training/grad_scaler.hpp>

#include <optional>
#include <vector>

struct Device {
  std::vector<float> grads;
};
template <>
struct headroom::optimizer_traits<Device> {
  static std::vector<float>& gradients(Device& optimizer) { return optimizer.grads; }
  static void step(Device&) {}
#ifdef HEADROOM_CONTROL
  static std::optional<NonFinite> find_nonfinite(const ParallelExecutor&, const std::vector<float>&) { return {}; }
#else
  static std::optional<NonFinite> find_nonfinite(const ParallelExecutor&, const Device&) { return {}; }
#endif
};

void train(headroom::GradScaler<>& scaler, Device& optimizer) { (void)scaler.step(optimizer); }
