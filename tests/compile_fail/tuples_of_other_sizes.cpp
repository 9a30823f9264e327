// expect: the two trees differ in structure: structs or tuples with different numbers of parts
#include <headroom/ops/cast.hpp>

#include <tuple>

#ifdef HEADROOM_CONTROL
using Destination = std::tuple<float, float>;
#else
using Destination = std::tuple<float>;
#endif

void convert(const std::tuple<float, float>& source, Destination& destination) {
  headroom::cast_into(source, destination);
}
