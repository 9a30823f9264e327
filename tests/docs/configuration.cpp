// A policy by name, with one setting.
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <string>

int main() {
  const std::string text = "policy = \"amax\"\ntarget_skip_rate = 0.001\n";
#include BLOCK
  headroom::AmaxConfig config;
  config.target_skip_rate = 0.001;
  return loss_scale == headroom::AnyLossScale(headroom::AmaxLossScale(config)) ? 0 : 1;
}
