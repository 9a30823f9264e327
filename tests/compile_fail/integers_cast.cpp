// expect: headroom: there is no floating-point number in this type
#include <headroom/ops/cast.hpp>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#ifdef HEADROOM_CONTROL
using Weights = std::vector<double>;
#else
using Weights = std::vector<short>;
#endif

auto cast(const std::tuple<int, std::map<std::string, Weights>>& tree) { return headroom::cast<float>(tree); }
