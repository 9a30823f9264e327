// A policy with settings of its own, and the text of its saved state.
#include <fstream>
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <sstream>
#include <string>

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  config.growth_interval = 500;
  headroom::DynamicLossScale loss_scale(config);
  loss_scale = loss_scale.adjust(true);
  const headroom::DynamicLossScale before = loss_scale;
#include BLOCK
  return loss_scale == before && text.str() == to_text(before.state_dict()) ? 0 : 1;
}
