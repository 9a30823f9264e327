// expect: use std::map, not std::unordered_map
#include <headroom/quantize.hpp>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#ifdef HEADROOM_CONTROL
template <class T>
using Map = std::map<std::string, T>;
#else
template <class T>
using Map = std::unordered_map<std::string, T>;
#endif

int main() {
  const Map<std::vector<float>> weights;
  headroom::TensorScales<headroom::float8_e4m3> scales(weights);
}
