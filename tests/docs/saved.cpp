// There is the text of a saved state.
#include <fstream>
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <string>

int main() {
  const std::string text = to_text(headroom::DynamicLossScale().state_dict());
#include BLOCK
  return loss_scale == headroom::DynamicLossScale() ? 0 : 1;
}
