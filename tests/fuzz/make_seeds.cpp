// Writes a state of every policy and of a SpikeGuard into a directory, as the first inputs of the
// fuzzer:
#include <headroom/observe/spike_guard.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/state/text.hpp>

#include <fstream>
#include <string>

int main(int, char** argv) {
  for (const std::string& name : headroom::loss_scale_names()) {
    const headroom::StateDict settings =
        headroom::from_text(name == "constant" ? "scale = 32768.0" : "");
    std::ofstream(std::string(argv[1]) + "/" + name) << to_text(
        headroom::make_loss_scale(name, settings).adjust(true).adjust(false).state_dict());
  }
  std::ofstream(std::string(argv[1]) + "/spike_guard")
      << to_text(headroom::SpikeGuard(8).adjust(1.0).adjust(0.1).state_dict());
}
