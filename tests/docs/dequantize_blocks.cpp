// A matrix of 130 x 129 ones, with another scale in each of the four blocks.
#include <headroom/quantize.hpp>
#include <vector>

int main() {
  const std::size_t rows = 130, columns = 129, n_scales = 4;
  const std::vector<unsigned char> ones(rows * columns, headroom::float8_e4m3(1.0F).bits());
  const std::vector<float> of_blocks{1.0F, 2.0F, 4.0F, 8.0F};
  const auto *weight_bytes = ones.data(),
             *scale_bytes = reinterpret_cast<const unsigned char*>(of_blocks.data());
#include BLOCK
  int wrong = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    wrong += float(weights[i]) != of_blocks[i / columns / 128 * 2 + i % columns / 128] ? 1 : 0;
  return wrong == 0 ? 0 : 1;
}
