// What noise and NaN cost policies: steps skipped and bits wasted over made-up gradients, whose
// largest magnitude is 2^-8 times 2 to normal noise of so many bits.

#include <cmath>
#include <cstdio>
#include <headroom/headroom.hpp>
#include <headroom/observe/simulate.hpp>
#include <limits>
#include <vector>

#include "../examples/digits/random.hpp"

namespace {

constexpr const char* names[] = {"amax", "dynamic"};

/// Each step is NaN with the probability 1 / `nan_in`; none if 0.
std::vector<double> make_up(int steps, double bits, int nan_in) {
  digits::Random random(1);
  std::vector<double> max_abs;
  for (int step = 0; step < steps; ++step) {
    const double value = std::exp2(-8.0 + bits * static_cast<double>(random.normal()));
    const bool is_nan = nan_in > 0 && random.uniform() * nan_in < 1.0;
    max_abs.push_back(is_nan ? std::numeric_limits<double>::quiet_NaN() : value);
  }
  return max_abs;
}

void print(const std::vector<double>& max_abs) {
  for (const char* name : names) {
    const auto found = headroom::simulate(headroom::make_loss_scale(name), max_abs);
    std::printf(" %8zu %6.2f %12.6g", found.skipped, found.wasted_bits,
                static_cast<double>(found.final_scale));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  constexpr int steps = 100000;
  std::printf("skipped, bits wasted, last scale\n%-16s %22s %29s\n", "", names[0], names[1]);
  for (const double bits : {0.1, 0.25, 0.35, 0.5, 1.0, 1.3, 2.0, 3.0, 4.0}) {
    std::printf("noise of %4.2f", bits);
    print(make_up(steps, bits, 0));
  }
  std::printf("\nNaN in one of n steps, 400,000 steps with a noise of 0.1\n");
  for (const int n : {10000, 5000, 2000, 1000, 500, 300}) {
    std::printf("n = %-9d", n);
    print(make_up(4 * steps, 0.1, n));
  }
}
