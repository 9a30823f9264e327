// expect: has to be trivially copyable and of at most 248 bytes
#include <headroom/policy/any.hpp>

#include <vector>

struct Policy {
#ifndef HEADROOM_CONTROL
  std::vector<float> history;
#endif
  [[nodiscard]] float loss_scale() const { return 1.0F; }
  [[nodiscard]] Policy adjust(bool) const { return *this; }
  [[nodiscard]] Policy adjust(const headroom::GradientReport&) const { return *this; }
};

int main() { return headroom::AnyLossScale(Policy()).loss_scale() == 1.0F ? 0 : 1; }
