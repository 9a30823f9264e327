// expect: headroom: for_each_block calls f(leaf, offset, block)
#include <headroom/ops/for_each_block.hpp>

#include <cstddef>
#include <vector>

#ifdef HEADROOM_CONTROL
using Block = headroom::span<const float>;
#else
using Block = headroom::span<float>;
#endif

void read(const std::vector<float>& gradients) {
  headroom::for_each_block(gradients, [](std::size_t, std::size_t, Block) {});
}
