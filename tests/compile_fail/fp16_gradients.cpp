// expect: headroom: fp16 and 8-bit gradients that are unscaled in place become 0
#include <headroom/dtype/half.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <map>
#include <string>
#include <vector>

struct Optimizer {
#ifdef HEADROOM_CONTROL
  static constexpr bool allow_fp16_gradients = true;
#endif
  std::map<std::string, std::vector<headroom::half>> grads;
  auto& gradients() { return grads; }
  void step() {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { scaler.step(optimizer); }
