// expect: optimizer_traits has passes of its own, but no unscale that can be called
// expect: optimizer_traits has passes of its own, but no scale that can be called
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Device {
  std::vector<float> grads;
};
template <>
struct headroom::optimizer_traits<Device> {
  static std::vector<float>& gradients(Device& optimizer) { return optimizer.grads; }
  static void step(Device&) {}
#ifdef HEADROOM_CONTROL
  static GradientReport unscale(const ParallelExecutor&, std::vector<float>&, float) { return {}; }
  static GradientReport scale(const ParallelExecutor&, std::vector<float>&, double) { return {}; }
#else
  static GradientReport unscale(ParallelExecutor&, std::vector<float>&, float) { return {}; }
  template <class T>
  static void scale(const ParallelExecutor&, std::vector<T>&, double) {}
#endif
  static GradientNorm measure(const ParallelExecutor&, const std::vector<float>&) { return {}; }
};

void train(headroom::GradScaler<>& scaler, Device& optimizer) { (void)scaler.step(optimizer); }
