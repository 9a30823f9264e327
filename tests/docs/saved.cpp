// A policy with settings of its own, and the text of its saved state.
#include <fstream>
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <string>

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  config.growth_interval = 500;
  headroom::DynamicLossScale loss_scale(config);
  const headroom::DynamicLossScale before = loss_scale;
  const std::string text = to_text(headroom::DynamicLossScale(config).adjust(true).state_dict());
#include BLOCK
  std::string saved;
  std::getline(std::ifstream("loss_scale.txt"), saved, '\0');
  return loss_scale == before.adjust(true) && saved == to_text(before.state_dict()) ? 0 : 1;
}
