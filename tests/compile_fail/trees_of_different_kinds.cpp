// expect: the two trees differ in structure
#include <headroom/ops/cast.hpp>

#include <tuple>
#include <vector>

#ifdef HEADROOM_CONTROL
using Destination = std::tuple<std::vector<float>, double>;
#else
using Destination = std::tuple<std::vector<float>, std::vector<std::vector<float>>>;
#endif

void convert(const std::tuple<std::vector<float>, float>& source, Destination& destination) {
  headroom::cast_into(source, destination);
}
