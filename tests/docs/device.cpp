// A loop whose gradients headroom cannot reach: the "kernels" work on an array of their own.
#include <headroom/policy/dynamic.hpp>

static float device_gradient;
static int steps;
static void launch_backward(float scale) { device_gradient = 3.0F * scale; }
static void launch_step() { ++steps; }

struct DeviceReport {
  bool finite;
  double max_abs;
};
static DeviceReport unscale_on_device(float scale) {
  device_gradient /= scale;
  return {true, static_cast<double>(device_gradient)};
}

int main() {
#include BLOCK
  return device_gradient == 3.0F && steps == 1 && loss_scale.counter() == 1 ? 0 : 1;
}
