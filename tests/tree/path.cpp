// Paths, as they are written for people: the names of members, keys, indices.
#include <headroom/headroom.hpp>

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/paths.hpp"

using support::paths_of;
using Paths = std::vector<std::string>;

namespace {

struct Pair {
  float a = 1.0F, b = 2.0F;
};
/// What HEADROOM_TREE names need not be members.
struct Layers {
  std::array<float, 128> by_letter{};
  float last = 1.0F;
  constexpr float& at(int i, int j) { return by_letter[static_cast<std::size_t>(i + j)]; }
  constexpr float& at(char c) { return by_letter[static_cast<std::size_t>(c)]; }
  // clang-format off
  HEADROOM_TREE(Layers, at(0, (1)) , by_letter[',']  ,  at('\''), at ('"'), at('\\'), at('('),last )
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
  CHECK(paths_of(Layers{}) == Paths{"at(0, (1))", "by_letter[',']", "at('\\'')", "at ('\"')", "at('\\\\')", "at('(')", "last"});
  CHECK(paths_of(Titles{}) == Paths{"conv 1, weight", " a (b", ""});
  CHECK(paths_of(std::vector<Titles>(1)) == Paths{"[0].conv 1, weight", "[0]. a (b", "[0]."});
}

TEST_CASE("keys read as they are written in C++") {
  CHECK(paths_of(std::map<std::string, float>{{"a\"b", 1.0F}, {"c\\d", 1.0F}, {"]", 1.0F}}) ==
        Paths{"[\"]\"]", "[\"a\\\"b\"]", "[\"c\\\\d\"]"});
  CHECK(paths_of(std::map<std::string, float>{{"", 1.0F}, {"\\\"", 1.0F}}) == Paths{"[\"\"]", "[\"\\\\\\\"\"]"});
}

TEST_CASE("a floating-point key has the digits that tell it from its neighbours, and no more") {
  CHECK(paths_of(std::map<double, float>{{0.1, 1.0F}, {1e-7, 1.0F}, {2.0, 1.0F}, {1e300, 1.0F}, {0.1 + 0.2, 1.0F}}) ==
        Paths{"[1e-07]", "[0.1]", "[0.30000000000000004]", "[2]", "[1e+300]"});
  CHECK(paths_of(std::map<float, float>{{0.1F, 1.0F}, {16777216.0F, 1.0F}}) == Paths{"[0.1]", "[16777216]"});
  CHECK(paths_of(std::map<long double, float>{{0.5L, 1.0F}, {-1e-30L, 1.0F}}) == Paths{"[-1e-30]", "[0.5]"});
  // From bits, for -ffast-math makes 0 of a -0 that it sees.
  double infinity = 0.0, minus_zero = 0.0;
  support::set_bits(infinity, headroom::binary64::infinity_bits);
  support::set_bits(minus_zero, headroom::binary64::sign_mask);
  CHECK(paths_of(std::map<double, float>{{infinity, 1.0F}, {minus_zero, 1.0F}}) == Paths{"[-0]", "[inf]"});
}
