// There is a scaler already, and the text of a state of its kind.
#include <fstream>
#include <headroom/headroom.hpp>
#include <string>

int main() {
  headroom::DynamicLossScale scaler;
  const std::string text = to_text(scaler.state_dict());
#include BLOCK
}
