// A shared library that uses parallel(2), for a program that loads and unloads it.
#include <headroom/headroom.hpp>

#include <atomic>
#include <cstddef>
#include <vector>

/// Whether the threads have done what they should.
extern "C" bool use_threads() {
  std::atomic<int> runs{0};
  for (int call = 0; call < 3; ++call) headroom::parallel(3).run(3, [&](std::size_t) { ++runs; });
  std::vector<std::vector<float>> many_leaves(500, std::vector<float>(10, 1.0F));  // for lists that need blocks of memory
  headroom::scale_in_place(many_leaves, 2.0);
  std::vector<float> tree(std::size_t{1} << 19, 3.0F);
  return runs == 9 && headroom::ConstantLossScale(3.0F).unscale_in_place(headroom::parallel(2), tree).finite;
}
