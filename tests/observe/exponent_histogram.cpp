#include <headroom/observe/exponent_histogram.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/exponents.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using headroom::bfloat16;
using headroom::exponent_histogram;
using headroom::ExponentHistogram;
using headroom::half;
using headroom::leaf_exponent_histograms;
using headroom::LeafHistogram;

namespace {

template <class T>
std::vector<T> random_elements(std::size_t size, std::mt19937& random) {
  std::vector<T> elements(size);
  for (T& element : elements) support::set_bits(element, support::random_bits<headroom::detail::format_of<T>>(random));
  return elements;
}

struct Mixed {
  std::vector<half> halves;
  std::vector<int> tokens;
  std::map<std::string, std::vector<float>> floats;
  std::pair<double, bfloat16> scalars;
  std::vector<float> nothing;
  HEADROOM_TREE(Mixed, halves, tokens, floats, scalars, nothing)
};
Mixed make_mixed(std::mt19937& random) {
  return {random_elements<half>(300000, random),
          {0x7F800000, 1},
          {{"a", random_elements<float>(200000, random)}, {"b", random_elements<float>(77, random)}},
          {0x1.8p-1070, bfloat16(-2.0F)},
          {}};
}

/// Runs tasks backwards, and more of them than there are threads.
struct Backwards {
  [[nodiscard]] static std::size_t concurrency() { return 5; }
  template <class Task>
  static void run(std::size_t n, Task&& task) {
    while (n > 0) task(--n);
  }
};

/// Counts what is handed over.
struct Idle {
  std::size_t& tasks;
  [[nodiscard]] static std::size_t concurrency() { return 4; }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    for (tasks += n; n > 0; --n) task(n - 1);
  }
};

ExponentHistogram sum_of(const std::vector<LeafHistogram>& leaves) {
  ExponentHistogram sum;
  for (const LeafHistogram& leaf : leaves) sum += leaf.histogram;
  return sum;
}

}  // namespace

TEST_CASE("a histogram of all leaves, and of each with its path; integers do not count") {
  std::mt19937 random(support::seed);
  const Mixed tree = make_mixed(random);
  support::Exponents all;
  for (const half element : tree.halves) all.add(element);
  for (const auto& [key, floats] : tree.floats) {
    for (const float& element : floats) all.add(element);
  }
  all.add(tree.scalars.first);
  all.add(tree.scalars.second);
  CHECK(all.are_those_of(exponent_histogram(tree)));

  const auto leaves = leaf_exponent_histograms(tree);
  REQUIRE(leaves.size() == headroom::leaf_count(tree));
  CHECK(leaves[0].path == "halves");
  CHECK(support::Exponents::of(tree.halves).are_those_of(leaves[0].histogram));
  CHECK(leaves[1].path == "floats[\"a\"]");
  CHECK(support::Exponents::of(tree.floats.at("a")).are_those_of(leaves[1].histogram));
  CHECK(leaves[2].path == "floats[\"b\"]");
  CHECK(support::Exponents::of(tree.floats.at("b")).are_those_of(leaves[2].histogram));
  CHECK(leaves[3].histogram.count(-1070) == 1);
  CHECK(leaves[3].histogram.subnormals() == 1);
  CHECK(leaves[4].histogram.powers_of_two(1) == 1);
  CHECK(leaves[5].path == "nothing");
  CHECK(leaves[5].histogram == ExponentHistogram());
  CHECK(sum_of(leaves) == exponent_histogram(tree));
}

TEST_CASE("the same on every instruction set and executor") {
  std::mt19937 random(support::seed);
  const std::vector<Mixed> tree = {make_mixed(random), make_mixed(random)};
  const ExponentHistogram expected = exponent_histogram(tree);
  const auto expected_leaves = leaf_exponent_histograms(tree);
  const auto same_leaves = [&](const std::vector<LeafHistogram>& leaves) {
    bool same = leaves.size() == expected_leaves.size();
    for (std::size_t i = 0; same && i < leaves.size(); ++i) {
      same = leaves[i].path == expected_leaves[i].path && leaves[i].histogram == expected_leaves[i].histogram;
    }
    return same;
  };
  support::for_each_isa([&](headroom::Isa) {
    CHECK(exponent_histogram(tree) == expected);
    CHECK(same_leaves(leaf_exponent_histograms(tree)));
    for (const int threads : {1, 2, 3, 7}) {
      CHECK(exponent_histogram(headroom::parallel(threads), tree) == expected);
      CHECK(same_leaves(leaf_exponent_histograms(headroom::parallel(threads), tree)));
    }
    CHECK(exponent_histogram(Backwards(), tree) == expected);
    CHECK(same_leaves(leaf_exponent_histograms(Backwards(), tree)));
  });
}

TEST_CASE("a tree too small to be shared out is counted by the caller") {
  std::size_t tasks = 0;
  CHECK(exponent_histogram(Idle{tasks}, std::vector<float>(1000, 1.0F)).count(0) == 1000);
  CHECK(tasks == 0);
  CHECK(exponent_histogram(Idle{tasks}, std::vector<float>(300000, 1.0F)).count(0) == 300000);
  CHECK(tasks > 1);
}

TEST_CASE("elements between those of a strided leaf are nobody's") {
  std::mt19937 random(support::seed);
  const auto store = random_elements<half>(90000, random);
  const support::Strided<const half> leaf{store.data() + 1, {30, 40, 50}, {2800, -70 + 140, 1}};
  support::Exponents expected;
  for (std::size_t i = 0; i < leaf.size(); ++i) expected.add(leaf.at(i));
  CHECK(expected.are_those_of(exponent_histogram(leaf)));
  CHECK(expected.are_those_of(exponent_histogram(Backwards(), leaf)));
  CHECK(leaf_exponent_histograms(std::make_tuple(1, leaf)).front().path == "<1>");

  const support::Strided<const half> every_third{store.data(), {30000}, {3}};
  support::Exponents of_third;
  for (std::size_t i = 0; i < every_third.size(); ++i) of_third.add(every_third.at(i));
  CHECK(of_third.are_those_of(exponent_histogram(headroom::parallel(2), every_third)));
}

TEST_CASE("trees without elements") {
  const ExponentHistogram nothing;
  CHECK(nothing.size() == 0);
  CHECK(nothing.zeros() == 0);
  CHECK(nothing.lowest_exponent() > nothing.highest_exponent());
  CHECK(exponent_histogram(std::vector<float>()) == nothing);
  CHECK(exponent_histogram(std::vector<std::vector<half>>()) == nothing);
  CHECK(exponent_histogram(headroom::parallel(2), std::unique_ptr<float>()) == nothing);
  CHECK(leaf_exponent_histograms(std::vector<std::vector<half>>()).empty());
}

TEST_CASE("a leaf that cannot be walked is named") {
  const std::vector<headroom::span<const float>> tree = {{nullptr, 3}};
  CHECK_THROWS_WITH(exponent_histogram(tree), "headroom: [0] is null, with a size of 3");
  CHECK_THROWS_WITH(leaf_exponent_histograms(tree), "headroom: [0] is null, with a size of 3");
}
