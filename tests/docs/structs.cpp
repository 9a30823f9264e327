// Structs: a class template, one that inherits another, and one with `rebind`.
#include <algorithm>
#include <headroom/headroom.hpp>
#include <limits>
#include <type_traits>
#include <vector>

#include BLOCK

using headroom::half;

template <class T>
struct Pair {
  Layer<T> first;
  HEADROOM_TREE(Pair, first)
};
struct Floats {
  std::vector<float> w;
  HEADROOM_TREE(Floats, w)
};
struct Halves {
  std::vector<half> w;
  HEADROOM_TREE(Halves, w)
};
template <>
struct headroom::tree_traits<Floats> {
  template <class To>
  using rebind = std::conditional_t<std::is_same_v<To, half>, Halves, Floats>;
};
static_assert(std::is_same_v<decltype(headroom::cast<half>(Pair<float>())), Pair<half>>);
static_assert(std::is_same_v<decltype(headroom::cast<half>(Floats())), Halves>);

int main() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Model model{{{nan}, {1.0F}}, {{2.0F}, {nan, 3.0F}}};
  headroom::scale_in_place(model, 0.0F);
  if (headroom::all_finite(model)) return 1;  // the comment says that NaN stays
  clear(model);
  if (headroom::measure(model).max_abs != 0.0 || !headroom::all_finite(model)) return 1;

  Adapted adapted{{{{1.0F}, {2.0F}}, {{3.0F}, {4.0F}}}, {5.0F}};
  headroom::scale_in_place(adapted, 2.0F);
  if (adapted.body.w[0] != 2.0F || adapted.adapter[0] != 10.0F ||
      headroom::leaf_count(adapted) != 5)
    return 1;

  const Halves scaled{{half(4.0F)}};  // it has no rebind
  Floats unscaled{{0.0F}};
  return headroom::unscale_into(scaled, unscaled, 2.0F).finite && unscaled.w[0] == 2.0F ? 0 : 1;
}
