// Paths as text: the names of members, keys, indices.
#include <headroom/headroom.hpp>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/paths.hpp"

using support::paths_of;
using Paths = std::vector<std::string>;

namespace {

/// HEADROOM_TREE may list expressions that are not members.
struct Layers {
  std::array<float, 128> by_number{};
  float last = 1.0F;
  constexpr float& at(int i, int j) { return by_number[static_cast<std::size_t>(i + j)]; }
  // clang-format off
  HEADROOM_TREE(Layers, at(0, (1)) ,  by_number[7]  ,last )
  // clang-format on
};
struct Titles {
  float first = 1.0F, second = 2.0F, third = 3.0F;
};

}  // namespace

template <>
struct headroom::tree_traits<Titles> {
  template <class Self>
  static auto children(Self& self) {
    return std::tie(self.first, self.second, self.third);
  }
  static constexpr std::array<const char*, 3> names = {"conv 1, weight", " a (b", ""};
};

TEST_CASE("a path has all of a name") {
  CHECK(paths_of(Layers{}) == Paths{"at(0, (1))", "by_number[7]", "last"});
  CHECK(paths_of(Titles{}) == Paths{"conv 1, weight", " a (b", ""});
  CHECK(paths_of(std::vector<Titles>(1)) == Paths{"[0].conv 1, weight", "[0]. a (b", "[0]."});
}
