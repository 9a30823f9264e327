// Sources and destinations that share memory: the same elements in the same places, or std::invalid_argument with the path
// before anything is written.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::bfloat16;
using headroom::half;
using headroom::span;
using support::message_of;

namespace {

/// Tensors that say nothing, or something, of whether their copies share elements.
struct Silent {
  float* begin;
  std::size_t n;
};
struct Owning : Silent {};
struct View : Silent {};

template <class T>
struct traits_of_silent {
  using value_type = float;
  static float* data(T& tensor) { return tensor.begin; }
  static const float* data(const T& tensor) { return tensor.begin; }
  static std::size_t size(const T& tensor) { return tensor.n; }
};

}  // namespace

template <>
struct headroom::tensor_traits<Silent> : traits_of_silent<Silent> {};
template <>
struct headroom::tensor_traits<Owning> : traits_of_silent<Owning> {
  static constexpr bool is_view = false;
};
template <>
struct headroom::tensor_traits<View> : traits_of_silent<View> {
  static constexpr bool is_view = true;
};

namespace {

using Floats = std::vector<float>;
const headroom::ConstantLossScale two(2.0F);

template <class Source, class Destination>
void check_refused(const Floats& memory, const Source& source, Destination destination, const std::string& words) {
  const Floats before = memory;
  const auto says_so = ContainsSubstring(words);
  CHECK_THAT(message_of([&] { headroom::cast_into(source, destination); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale_into(source, destination); }), says_so);
  CHECK_THAT(message_of([&] { (void)two.unscale_into(headroom::parallel(3), source, destination); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::NoOpLossScale().unscale_into(source, destination); }), says_so);
  CHECK(memory == before);
}

template <class T>
span<T> as(Floats& memory, std::size_t first_byte, std::size_t size) {
  return {reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(memory.data()) + first_byte), size};
}
Floats counted(std::size_t size) {
  Floats values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

/// Counts how often it is given work.
struct Counting {
  int& runs;
  [[nodiscard]] std::size_t concurrency() const { return 2; }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    ++runs;
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};

}  // namespace

TEST_CASE("a leaf that overlaps itself") {
  Floats memory = counted(100);
  const std::string words = "the tree: source and destination overlap";
  check_refused(memory, as<half>(memory, 0, 50), as<float>(memory, 0, 50), words);
  check_refused(memory, as<float>(memory, 0, 50), as<half>(memory, 0, 50), words);
  check_refused(memory, as<float>(memory, 0, 50), as<float>(memory, 4, 50), words);
  check_refused(memory, as<float>(memory, 4, 50), as<float>(memory, 0, 50), words);
  check_refused(memory, as<float>(memory, 0, 50), as<float>(memory, 196, 50), words);
  check_refused(memory, as<float>(memory, 0, 50), as<float>(memory, 198, 50), words);
  check_refused(memory, as<double>(memory, 0, 25), as<float>(memory, 196, 25), words);
  check_refused(memory, std::make_pair(1.0F, as<half>(memory, 0, 50)), std::make_pair(1.0F, as<float>(memory, 0, 50)),
                "second: source and destination overlap");
}

TEST_CASE("a leaf that does not, or is its own destination") {
  Floats memory = counted(100);
  const Floats before = memory;
  CHECK(two.unscale_into(as<float>(memory, 0, 50), as<float>(memory, 200, 50)).max_abs == 25.0);
  CHECK(two.unscale_into(as<half>(memory, 0, 25), as<float>(memory, 50, 25)).finite);
  CHECK(two.unscale_into(as<float>(memory, 0, 0), as<float>(memory, 0, 0)).finite);
  memory = before;
  CHECK(two.unscale_into(memory, memory).max_abs == 50.0);
  CHECK(memory == headroom::ConstantLossScale(2.0F).unscale(before).grads);
  const auto halves = headroom::cast<half>(before);
  std::vector<half> reused = halves;
  const auto as_bfloats = span<bfloat16>(reinterpret_cast<bfloat16*>(reused.data()), reused.size());
  headroom::cast_into(reused, as_bfloats);
  CHECK(std::memcmp(reused.data(), headroom::cast<bfloat16>(halves).data(), 200) == 0);
}

TEST_CASE("a matrix and its transpose, and parts of one matrix") {
  using support::Strided;
  Floats memory = counted(36);
  const std::string words = "the tree: source and destination overlap";
  float* const data = memory.data();
  const Strided<float> matrix{data, {6, 6}, {6, 1}}, transpose{data, {6, 6}, {1, 6}};
  check_refused(memory, matrix, transpose, words);
  check_refused(memory, Strided<float>{data, {6, 3}, {6, 1}}, Strided<float>{data + 2, {6, 3}, {6, 1}}, words);
  check_refused(memory, Strided<float>{data, {18}, {2}}, Strided<float>{data, {18}, {1}}, words);
  check_refused(memory, Strided<float>{data + 35, {36}, {-1}}, Strided<float>{data, {36}, {1}}, words);
  // flat and dense
  check_refused(memory, Strided<float>{data, {5, 6}, {6, 1}}, span<float>(data + 6, 30), words);

  headroom::cast_into(Strided<float>{data, {6, 2}, {6, 1}}, Strided<float>{data + 2, {6, 2}, {6, 1}});
  CHECK(memory[2] == 1.0F);
  CHECK(memory[33] == 32.0F);
  headroom::cast_into(Strided<float>{data, {18}, {2}}, Strided<float>{data + 1, {18}, {2}});
  CHECK(memory[35] == memory[34]);
  const Floats fresh = counted(36);
  std::copy(fresh.begin(), fresh.end(), data);
  CHECK(two.unscale_into(transpose, transpose).max_abs == 18.0);
  CHECK(two.unscale_into(matrix, span<float>(memory)).max_abs == 9.0);
  CHECK(memory[35] == 9.0F);
  CHECK(memory[1] == 0.5F);
}

TEST_CASE("the destination of one leaf is the source of another") {
  Floats a = {1.0F, 2.0F}, b = {3.0F, 4.0F};
  check_refused(a, std::tie(a, b), std::tie(b, a), "overlaps the source's <");
  check_refused(a, std::tie(a, b), std::tie(b, b), "the destination's <0> overlaps the source's <1>");
  CHECK(b == Floats{3.0F, 4.0F});
  // read before it is written, unless another thread is faster
  Floats c = {0.0F, 0.0F};
  check_refused(a, std::tie(a, b), std::tie(c, a), "the destination's <1> overlaps the source's <0>");
  check_refused(a, std::tie(a, a), std::tie(a, a), "overlaps the source's");
  CHECK(message_of([&] { headroom::cast_into(std::tie(a, a), std::tie(c, c)); }).empty());
  CHECK(message_of([&] { headroom::cast_into(std::tie(a, b), std::tie(a, b)); }).empty());
}

TEST_CASE("among many leaves, in any order of addresses") {
  constexpr std::size_t leaves = 500;
  Floats memory = counted(40 * leaves);
  std::vector<span<float>> source, destination;
  for (std::size_t i = 0; i < leaves; ++i) {
    source.emplace_back(memory.data() + 40 * (i * 7 % leaves), 20);
    destination.emplace_back(memory.data() + 40 * (i * 11 % leaves) + 20, 20);
  }
  CHECK(message_of([&] { (void)two.unscale_into(source, destination); }).empty());
  for (const std::size_t i : std::vector<std::size_t>{0, 1, 250, 499}) {
    const auto kept = destination[i];
    destination[i] = {kept.data() - 1, 20};  // the last element of its neighbour, which is some other leaf's source
    const std::string j = std::to_string(i * 11 * 143 % leaves);  // 7 * 143 = 1 modulo 500
    if (i * 11 % leaves == i * 7 % leaves) {
      check_refused(memory, source, destination, "[" + j + "]: source and destination overlap");
    } else {
      check_refused(memory, source, destination,
                    "the destination's [" + std::to_string(i) + "] overlaps the source's [" + j + "]");
    }
    destination[i] = kept;
  }
  CHECK(message_of([&] { headroom::cast_into(source, destination); }).empty());
}

TEST_CASE("leaves that are columns of one matrix") {
  using support::Strided;
  Floats memory = counted(60);
  std::vector<Strided<float>> source, destination;
  for (int i = 0; i < 3; ++i) {
    source.push_back({memory.data() + i, {10}, {6}});
    destination.push_back({memory.data() + 3 + i, {10}, {6}});
  }
  CHECK(message_of([&] { headroom::cast_into(source, destination); }).empty());
  CHECK(memory[59] == 57.0F);
  destination[1] = source[2];
  check_refused(memory, source, destination, "the destination's [1] overlaps the source's");
}

TEST_CASE("a leaf that is in a tree twice is not written twice") {
  const auto shared = std::make_shared<Floats>(Floats{8.0F, 8.0F}), other = std::make_shared<Floats>(Floats{2.0F});
  const std::vector<std::shared_ptr<Floats>> tied{shared, other, shared}, apart{shared, other}, reversed{other, shared};
  for (const auto& executor : {headroom::parallel(1), headroom::parallel(2)}) {
    const std::string message = message_of([&] { (void)headroom::unscale_in_place(executor, tied, 2.0F); });
    CHECK_THAT(message, ContainsSubstring("[0]") && ContainsSubstring("[2]") && ContainsSubstring("share elements"));
  }
  CHECK_FALSE(message_of([&] { headroom::scale_in_place(tied, 2.0); }).empty());
  CHECK_FALSE(message_of([&] { (void)headroom::clip_by_global_norm(tied, 1.0); }).empty());
  CHECK(*shared == Floats{8.0F, 8.0F});
  CHECK(headroom::measure(tied).max_abs == 8.0);  // to read it twice is no harm
  (void)headroom::unscale_in_place(apart, 2.0F);
  (void)headroom::unscale_in_place(reversed, 2.0F);
  CHECK(*shared == Floats{2.0F, 2.0F});
  CHECK(*other == Floats{0.5F});
}

TEST_CASE("a tensor that does not say whether it is a view is not written twice; one that owns its elements is believed") {
  static_assert(headroom::detail::leaves_may_meet_v<Silent> && headroom::detail::leaves_may_meet_v<std::vector<View>>);
  static_assert(!headroom::detail::leaves_may_meet_v<Owning> && !headroom::detail::leaves_may_meet_v<std::vector<Floats>>);
  static_assert(!headroom::detail::leaves_may_meet_v<std::tuple<float, float[2], std::array<half, 3>>>);
  static_assert(headroom::detail::owns_elements_v<Silent>);  // the rest is as if it had said false
  Floats memory(6, 4.0F);
  float* const begin = memory.data();
  const auto says_so = ContainsSubstring("[1] and [0] share elements");
  for (std::vector<Silent> tied : {std::vector<Silent>{{begin, 6}, {begin, 6}}, {{begin, 4}, {begin + 2, 4}}}) {
    CHECK_THAT(message_of([&] { headroom::scale_in_place(tied, 2.0); }), says_so);
    CHECK_THAT(message_of([&] { (void)two.unscale_in_place(headroom::parallel(2), tied); }), says_so);
    CHECK_THAT(message_of([&] { (void)headroom::clip_by_global_norm(tied, 1.0); }), says_so);
    CHECK_THAT(message_of([&] { (void)headroom::unscale_and_clip_in_place(tied, 2.0F, 1.0); }), says_so);
    CHECK(headroom::measure(tied).max_abs == 4.0);
  }
  CHECK(memory == Floats(6, 4.0F));
  std::vector<Silent> apart{{begin + 3, 3}, {begin, 3}};
  (void)two.unscale_in_place(apart);
  CHECK(memory == Floats(6, 2.0F));
  std::vector<Owning> owning{{{begin, 6}}, {{begin, 6}}};
  (void)two.unscale_in_place(owning);
  CHECK(memory == Floats(6, 0.5F));
}

TEST_CASE("several sources go to one destination in their order, on any number of threads") {
  const std::size_t size = std::size_t{1} << 18;
  const std::vector<Floats> sources{Floats(size, 2.0F), Floats(size, 4.0F), Floats(size, 6.0F)};
  Floats memory(size, 1.0F);
  const std::vector<span<float>> one(3, span<float>(memory));
  (void)headroom::accumulate_into(headroom::parallel(3), sources, one, 2.0F);
  CHECK(memory == Floats(size, 7.0F));
  std::vector<Silent> silent(3, Silent{memory.data(), size});
  int runs = 0;
  (void)headroom::accumulate_into(Counting{runs}, sources, silent, 2.0F);
  CHECK(runs == 0);
  CHECK(memory == Floats(size, 13.0F));
  (void)headroom::unscale_into(headroom::parallel(3), sources, one, 2.0F);
  CHECK(memory == Floats(size, 3.0F));
}

TEST_CASE("parts of one array, in any order: written where they are apart") {
  Floats memory(6, 4.0F);
  const auto part = [&](std::size_t begin, std::size_t size) { return span<float>(memory.data() + begin, size); };
  const std::vector<span<float>> apart{part(4, 2), part(0, 4)}, meeting{part(3, 3), part(0, 4)};
  CHECK_THAT(message_of([&] { (void)headroom::unscale_in_place(meeting, 2.0F); }), ContainsSubstring("share elements"));
  CHECK(memory == Floats(6, 4.0F));
  (void)headroom::unscale_in_place(apart, 2.0F);
  CHECK(memory == Floats(6, 2.0F));
}

TEST_CASE("strided parts of one array: written where they are apart") {
  Floats memory(6, 4.0F);
  using Part = support::Strided<float>;
  const Part even{memory.data(), {3}, {2}}, odd{memory.data() + 1, {3}, {2}}, middle{memory.data() + 1, {3}, {1}};
  const std::vector<Part> apart{even, odd}, meeting{even, middle};
  CHECK_THAT(message_of([&] { (void)headroom::unscale_in_place(meeting, 2.0F); }), ContainsSubstring("share elements"));
  CHECK(memory == Floats(6, 4.0F));
  (void)headroom::unscale_in_place(apart, 2.0F);
  CHECK(memory == Floats(6, 2.0F));
}

TEST_CASE("threads are used where destinations are apart, and only there") {
  const std::size_t size = std::size_t{1} << 18;
  const std::vector<Floats> sources(2, Floats(size, 2.0F));
  Floats first(size), second(size);
  const std::vector<span<float>> apart{first, second}, meeting{first, first};
  int runs = 0;
  (void)headroom::unscale_into(Counting{runs}, sources, meeting, 2.0F);
  CHECK(runs == 0);
  (void)headroom::unscale_into(Counting{runs}, sources, apart, 2.0F);
  CHECK(runs == 1);
}
