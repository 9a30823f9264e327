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

// Random numbers that are the same with every standard library. The engine is fixed by the standard to the bit; the
// distributions and std::shuffle are not, so they are written out here.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  // Uniform in (0, 1), never 0, so that its logarithm is finite.
  double uniform() { return (static_cast<double>(engine_()) + 0.5) * 0x1p-32; }

  // Box and Muller's transformation. Its second value is not kept: a call uses two draws, whatever was called before.
  float normal() {
    constexpr double two_pi = 6.283185307179586;
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return static_cast<float>(radius * std::cos(two_pi * uniform()));
  }

  // Fisher and Yates.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      const auto chosen = static_cast<std::size_t>(uniform() * static_cast<double>(left));
      std::swap(items[left - 1], items[chosen]);
    }
  }

  // Where it is, as the text that the standard lays down for the engine.
  [[nodiscard]] std::string state() const {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << engine_;
    return text.str();
  }
  // Throws std::invalid_argument if that is not what state() returns.
  void set_state(const std::string& state) {
    std::istringstream text(state);
    text.imbue(std::locale::classic());
    if (!(text >> engine_)) throw std::invalid_argument("this is no state of a generator of random numbers");
  }

 private:
  std::mt19937 engine_;
};

}  // namespace digits
