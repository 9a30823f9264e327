// The standard containers: which are leaves, which are branches, with what paths, and which are
// skipped.
#include <headroom/tree/std.hpp>

#include <headroom/dtype/half.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/tree/walk.hpp>

#include <any>
#include <array>
#include <atomic>
#include <bitset>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/paths.hpp"

using namespace headroom;
using support::paths_of;
using Paths = std::vector<std::string>;

namespace {

enum class Colour { red, green };
enum Shade { dark };
template <class T>
struct Type {
  using type = T;
};

}  // namespace

TEST_CASE("sequences") {
  CHECK(paths_of(std::vector<std::vector<float>>(2)) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::array<std::vector<float>, 2>{}) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::deque<float>{1.0F, 2.0F}) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::list<std::vector<float>>(2)) == Paths{"[0]", "[1]"});
  float matrix[2][3] = {};
  CHECK(paths_of(matrix) == Paths{"[0]", "[1]"});
  CHECK(element_count(matrix) == 6);
  std::vector<float> array_of_vectors[2] = {{1.0F}, {2.0F, 3.0F}};
  CHECK(paths_of(array_of_vectors) == Paths{"[0]", "[1]"});
  CHECK(element_count(array_of_vectors) == 3);
}

TEST_CASE("maps") {
  CHECK(paths_of(std::map<std::string, std::vector<float>>{{"encoder", {}}, {"decoder", {}}}) ==
        Paths{"[\"decoder\"]", "[\"encoder\"]"});
  CHECK(paths_of(std::map<std::string, float>{
            {"a\"b", 1.0F}, {"c\\d", 1.0F}, {"", 1.0F}, {"e\n", 1.0F}}) ==
        Paths{"[\"\"]", "[\"a\\\"b\"]", "[\"c\\\\d\"]", "[\"e\\x0a\"]"});
  CHECK(paths_of(std::map<int, float>{{3, 1.0F}, {-1, 1.0F}}) == Paths{"[-1]", "[3]"});
  CHECK(paths_of(std::map<Colour, float>{{Colour::green, 1.0F}}) == Paths{"[1]"});
  CHECK(paths_of(std::map<const char*, float>{{"key", 1.0F}}) == Paths{"[\"key\"]"});
  CHECK(paths_of(std::unordered_map<std::string_view, float>{{"key", 1.0F}}) == Paths{"[\"key\"]"});
  CHECK(paths_of(std::map<std::pair<int, int>, float>{{{1, 2}, 1.0F}}) == Paths{"[?]"});
}

TEST_CASE("tuples and pairs") {
  CHECK(paths_of(std::tuple<float, std::vector<half>>{}) == Paths{"<0>", "<1>"});
  CHECK(paths_of(std::pair<float, std::vector<half>>{}) == Paths{"first", "second"});
  CHECK(paths_of(std::vector<std::tuple<int, float>>(1)) == Paths{"[0]<1>"});
  float value = 1.0F;
  CHECK(element_count(std::tie(value)) == 1);
}

TEST_CASE("pointers add nothing to a path, and an empty one has no leaves") {
  CHECK(paths_of(std::make_unique<std::vector<float>>()) == Paths{""});
  CHECK(paths_of(std::make_shared<std::pair<float, float>>()) == Paths{"first", "second"});
  CHECK(paths_of(std::optional<float>(1.0F)) == Paths{""});
  CHECK(paths_of(std::optional<float>()).empty());
  CHECK(paths_of(std::unique_ptr<float>()).empty());
  CHECK(paths_of(std::shared_ptr<std::vector<float>>()).empty());
  std::vector<float> value(3);
  CHECK(paths_of(std::ref(value)) == Paths{""});
  CHECK(paths_of(std::vector<std::reference_wrapper<std::vector<float>>>{value, value}) ==
        Paths{"[0]", "[1]"});
  CHECK(element_count(std::cref(value)) == 3);
}

TEST_CASE("variants are what they hold") {
  using Tree = std::variant<std::monostate, float, std::vector<float>, std::pair<float, int>, int>;
  CHECK(paths_of(Tree{}).empty());
  CHECK(paths_of(Tree{1.0F}) == Paths{""});
  CHECK(element_count(Tree{std::vector<float>(4)}) == 4);
  CHECK(paths_of(Tree{std::pair<float, int>{}}) == Paths{"first"});
  CHECK(paths_of(Tree{7}).empty());
}

TEST_CASE("what has no floating-point elements is passed by") {
  CHECK(leaf_count(
            std::make_tuple(7, true, 'x', Colour::red, dark, nullptr, std::string("text"))) == 0);
  CHECK(leaf_count(std::vector<bool>(3)) == 0);
  CHECK(leaf_count(std::vector<int>(3)) == 0);
  CHECK(leaf_count(span<const int>()) == 0);
  CHECK(leaf_count(std::array<std::uint8_t, 3>{}) == 0);
  CHECK(leaf_count(std::map<std::string, int>{{"a", 1}}) == 0);
  CHECK(leaf_count(std::vector<std::vector<bool>>(3)) == 0);
  CHECK(leaf_count(std::optional<int>(1)) == 0);
  int array[3] = {};
  CHECK(leaf_count(array) == 0);
  CHECK(paths_of(std::tuple<int, std::string, float, std::vector<bool>>{}) == Paths{"<2>"});
}

TEST_CASE("leaves, branches, and what is neither, as docs/reference.md lists them") {
  using detail::node_kind;
  using detail::node_kind_v;
  using Floats = std::vector<float>;
  const auto are = [](node_kind kind, auto... types) {
    return ((node_kind_v<typename decltype(types)::type> == kind) && ...);
  };
  CHECK(are(node_kind::tensor, Type<Floats>(), Type<std::array<half, 2>>(), Type<double[2]>(),
            Type<span<float>>()));
#if defined(__cpp_lib_span)
  CHECK(are(node_kind::tensor, Type<std::span<float>>(), Type<std::span<const half, 2>>()));
  CHECK(are(node_kind::unknown, Type<std::span<Floats>>()));
#endif
  CHECK(are(node_kind::branch, Type<std::vector<Floats>>(), Type<std::array<Floats, 2>>(),
            Type<Floats[2]>(), Type<std::deque<float>>(), Type<std::list<float>>(),
            Type<std::map<int, float>>(), Type<std::unordered_map<int, float>>(),
            Type<std::tuple<float>>(), Type<std::pair<float, int>>(), Type<std::optional<float>>(),
            Type<std::variant<float, int>>(), Type<std::unique_ptr<float>>(),
            Type<std::shared_ptr<float>>(), Type<std::reference_wrapper<float>>()));
  CHECK(are(node_kind::integers, Type<int>(), Type<bool>(), Type<Colour>(), Type<std::nullptr_t>(),
            Type<std::string>(), Type<std::monostate>(), Type<std::vector<bool>>(),
            Type<std::map<std::string, int>>()));
  CHECK(are(node_kind::unknown, Type<float*>(), Type<std::unique_ptr<float[]>>(),
            Type<std::shared_ptr<float[]>>(), Type<std::weak_ptr<float>>(), Type<std::set<int>>(),
            Type<std::unordered_set<float>>(), Type<std::multimap<int, float>>(),
            Type<std::forward_list<float>>(), Type<std::queue<float>>(), Type<std::stack<float>>(),
            Type<std::complex<float>>(), Type<std::atomic<float>>(), Type<std::any>(),
            Type<std::bitset<2>>(), Type<std::string_view>(), Type<long double>()));
}
