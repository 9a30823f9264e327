// expect: headroom: for_each_block calls f(leaf, offset, block)
#include <headroom/ops/for_each_block.hpp>

#include <cstddef>
#include <vector>

#ifdef HEADROOM_CONTROL
void read_block(std::size_t, std::size_t, const headroom::span<const float>&);
#else
void read_block(std::size_t, const headroom::span<const float>&);
#endif

void read(const std::vector<float>& gradients) { headroom::for_each_block(headroom::parallel(2), gradients, read_block); }
