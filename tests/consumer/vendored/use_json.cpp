#include <cstdio>
#include <headroom/policy/dynamic.hpp>
#include <nlohmann/json.hpp>

int main() {
  const bool right =
      headroom::DynamicLossScale().loss_scale() == 32768.0F && nlohmann::vendored == 7;
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
