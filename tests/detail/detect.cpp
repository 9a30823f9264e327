// The detection idiom.
#include <headroom/detail/detect.hpp>

#include <type_traits>
#include <utility>

#include "support/catch.hpp"

namespace {

struct Both {
  using type = int;
  [[nodiscard]] int size() const { return 0; }
};
struct OnlyMutable {
  int size() { return 0; }
};
class Private {
  using type = int;
};

template <class T>
using type_t = typename T::type;
template <class T>
using size_of_const_t = decltype(std::declval<const T&>().size());
template <class A, class B>
using sum_t = decltype(std::declval<A>() + std::declval<B>());

using headroom::detail::is_detected_v;
static_assert(is_detected_v<type_t, Both> && !is_detected_v<type_t, OnlyMutable> && !is_detected_v<type_t, int>);
static_assert(!is_detected_v<type_t, Private>);
static_assert(is_detected_v<size_of_const_t, Both> && !is_detected_v<size_of_const_t, OnlyMutable>);
static_assert(is_detected_v<sum_t, int, float> && !is_detected_v<sum_t, int, Both>);

}  // namespace

TEST_CASE("what is detected is checked when this compiles") { SUCCEED(); }
