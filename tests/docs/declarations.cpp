// Surrounds a code block that declares types and functions.
#include <cstdio>
#include <headroom/headroom.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include BLOCK

static_assert(std::is_same_v<decltype(headroom::cast<headroom::half>(Layer<float>())), Layer<headroom::half>>);
static_assert(headroom::tensor_traits<Buffer>::is_view, "or scale(buffer, factor) would scale the elements of its source");

/// Two of its tensors share elements, which headroom notices.
int main() {
  float element = 1.0F;
  std::vector<Buffer> tied{{&element, 1}, {&element, 1}};
  try {
    headroom::scale_in_place(tied, 2.0F);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  std::printf("scaled twice, to %g\n", element);
  return 1;
}
