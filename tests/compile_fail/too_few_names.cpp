// expect: tree_traits<T>::names must have one name for each of the children
#include <headroom/ops/measure.hpp>

#include <array>
#include <tuple>
#include <vector>

struct Layer {
  std::vector<float> weight, bias;
};
template <>
struct headroom::tree_traits<Layer> {
  template <class Self>
  static auto children(Self& self) {
    return std::tie(self.weight, self.bias);
  }
#ifdef HEADROOM_CONTROL
  static constexpr std::array<const char*, 2> names = {"weight", "bias"};
#else
  static constexpr std::array<const char*, 1> names = {"weight"};
#endif
};

bool check(const Layer& layer) { return headroom::all_finite(layer); }
