#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace digits {

// Random numbers that are the same with every standard library. The standard defines the engine
// exactly, but not the distributions or std::shuffle, so they are implemented here.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  // Uniform in (0, 1). Never 0, so its logarithm is finite.
  double uniform() { return (static_cast<double>(engine_()) + 0.5) * 0x1p-32; }

  // The Box-Muller transform. The second value is not kept, so each call uses exactly two draws.
  float normal() {
    constexpr double two_pi = 6.283185307179586;
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return static_cast<float>(radius * std::cos(two_pi * uniform()));
  }

  // The Fisher-Yates shuffle.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      const auto chosen = static_cast<std::size_t>(uniform() * static_cast<double>(left));
      std::swap(items[left - 1], items[chosen]);
    }
  }

  // The state as text, in the format that the standard defines for the engine.
  [[nodiscard]] std::string state() const {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << engine_;
    return text.str();
  }
  // Throws std::invalid_argument if the text is not a state.
  void set_state(const std::string& state) {
    std::istringstream text(state);
    text.imbue(std::locale::classic());
    if (!(text >> engine_)) throw std::invalid_argument("not a state of a random number generator");
  }

 private:
  std::mt19937 engine_;
};

}  // namespace digits
