// A std::span is a leaf, whether <span> is included after headroom, as here, or before.
#include <headroom/headroom.hpp>

#include <span>
#include <tuple>
#include <vector>

void unscale(std::span<const headroom::half> source, std::span<float, 4> destination) {
  (void)headroom::DynamicLossScale().unscale_into(std::make_tuple(source.first(4)),
                                                  std::make_tuple(destination));
  headroom::scale_in_place(destination, 2.0);
  [[maybe_unused]] const std::vector<float> copy = headroom::cast<float>(source);
  static_assert(headroom::detail::node_kind_v<std::span<const int>> ==
                headroom::detail::node_kind::integers);
}
