#include <headroom/headroom.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

#if defined(__cpp_lib_span)
#include <span>
#endif

using namespace headroom;
using support::Strided;

namespace {

using Bits = std::vector<std::uint32_t>;
constexpr std::size_t block_size = 1024;

std::vector<float> floats_of(span<const float> block) {
  return std::vector<float>(block.begin(), block.end());
}

/// The elements of each leaf, in the order of the calls. Checks that blocks come in order.
template <class Tree>
std::vector<Bits> blocks_of(const Tree& tree) {
  std::vector<Bits> leaves(leaf_count(tree));
  std::size_t last = 0;
  bool in_order = true;
  for_each_block(tree, [&](std::size_t leaf, std::size_t offset, span<const float> block) {
    in_order = in_order && leaf >= last && leaf < leaves.size() &&
               offset == leaves.at(leaf).size() && !block.empty();
    const Bits bits = support::bits_of(floats_of(block));
    leaves.at(leaf).insert(leaves.at(leaf).end(), bits.begin(), bits.end());
    last = leaf;
  });
  CHECK(in_order);
  return leaves;
}

/// The same without for_each_block: each leaf of a tree of floats.
template <class Tree>
std::vector<Bits> leaves_of(const Tree& tree) {
  std::vector<Bits> leaves;
  for_each_leaf(tree, [&](const auto& leaf) {
    if constexpr (is_dtype_v<std::decay_t<decltype(leaf)>>) {
      leaves.push_back({support::bits_of(leaf)});
    } else {
      leaves.push_back(support::bits_of(floats_of(leaf)));
    }
  });
  return leaves;
}

std::size_t unlike(const Bits& found, const Bits& expected) {
  std::size_t unlike = found.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; unlike == 0 && i < found.size(); ++i) {
    unlike += support::same_bits<binary32>(found[i], expected[i]) ? 0U : 1U;
  }
  return unlike;
}

/// Elements of any dtype, Inf and NaN among them.
template <class T>
std::vector<T> some(std::size_t size, std::mt19937& random) {
  std::vector<support::bits_type<T>> bits(size);
  for (auto& each : bits) each = support::random_bits<detail::format_of<T>>(random);
  return support::values_with<T>(bits);
}

/// Compares blocks with a cast, for leaves with and without strides.
template <class T>
void check_dtype(std::mt19937& random) {
  for (const std::size_t size : {0U, 1U, 7U, 1023U, 1024U, 1025U, 5000U}) {
    INFO(support::name_of<T>() << ", " << size << " elements");
    const auto values = some<T>(size, random);
    CHECK(unlike(blocks_of(values).at(0), support::bits_of(cast<float>(values))) == 0);
  }
  auto values = some<T>(12'000, random);
  const Strided<T> tensor{values.data(), {40, 70}, {300, 3}};
  std::vector<T> copy;
  for (std::size_t i = 0; i < tensor.size(); ++i) copy.push_back(tensor.at(i));
  CHECK(unlike(blocks_of(tensor).at(0), support::bits_of(cast<float>(copy))) == 0);
}

/// Runs the tasks from the last to the first, in threads of their own.
struct ThreadEach {
  std::size_t* tasks;
  [[nodiscard]] static std::size_t concurrency() { return 3; }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    *tasks = n;
    std::list<std::thread> threads;
    for (std::size_t i = n; i-- > 0;) threads.emplace_back([&task, i] { task(i); });
    for (std::thread& thread : threads) thread.join();
  }
};

/// Enough elements for several threads, in leaves whose sizes are no multiples of a block.
template <class T>
std::vector<std::vector<T>> large_tree() {
  std::vector<std::vector<T>> tree;
  for (const std::size_t size : {100'000U, 0U, 1U, 300'001U, 5000U, 70'000U, 1U})
    tree.emplace_back(size, T(3.0F));
  return tree;
}

/// Records writes: each element must be written by exactly one call.
template <class T, class Executor>
std::size_t wrong_elements(const Executor& executor) {
  const auto tree = large_tree<T>();
  std::vector<std::vector<float>> written;
  for (const auto& leaf : tree) written.emplace_back(leaf.size());
  std::atomic<std::size_t> wrong{0};
  for_each_block(
      tree,
      [&](std::size_t leaf, std::size_t offset, span<const float> block) {
        if (offset % block_size != 0) ++wrong;
        if constexpr (std::is_same_v<T, float>)
          wrong += block.data() == tree.at(leaf).data() + offset ? 0U : 1U;
        for (std::size_t i = 0; i < block.size(); ++i) written.at(leaf).at(offset + i) += block[i];
      },
      executor);
  for (const auto& leaf : written) {
    for (const float value : leaf) wrong += value == 3.0F ? 0U : 1U;
  }
  return wrong;
}

}  // namespace

TEST_CASE(
    "blocks have the bits of elements cast to float, of every dtype, on every instruction set") {
  support::for_each_isa([](Isa) {
    std::mt19937 random(support::seed);
    support::for_each_storage_float(
        [&](auto type) { check_dtype<typename decltype(type)::type>(random); });
    check_dtype<float>(random);
    check_dtype<double>(random);
  });
}

TEST_CASE(
    "a float leaf without gaps is one block, which is its own memory; others come in aligned "
    "copies") {
  std::vector<std::vector<float>> floats{std::vector<float>(70'000, 1.0F), {}, {2.0F}};
  std::vector<float> columns(6);
  const Strided<float> by_columns{columns.data(), {2, 3}, {1, 2}};
  std::vector<std::pair<const float*, std::size_t>> calls;
  const auto f = [&](std::size_t, std::size_t, span<const float> block) {
    calls.emplace_back(block.data(), block.size());
  };
  for_each_block(std::tie(floats, by_columns), f);
  CHECK(calls ==
        decltype(calls){{floats[0].data(), 70'000}, {floats[2].data(), 1}, {columns.data(), 6}});
  calls.clear();
  const Strided<float> with_gaps{floats[0].data(), {1250}, {2}};
  for_each_block(std::make_pair(std::vector<half>(1025), with_gaps), f);
  REQUIRE(calls.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(calls[i].first) % 64 == 0);
    CHECK(calls[i].second == (i % 2 == 0 ? 1024U : i == 1 ? 1U : 226U));
  }
}

TEST_CASE("blocks of trees: each leaf has its number, in the order of for_each_leaf") {
  // Counts as two leaves, as in every verb
  const auto tied = std::make_shared<std::vector<half>>(1500, half(2.0F));
  const auto mixed = std::make_tuple(
      std::vector<half>(2500, half(1.5F)), 7, std::vector<float>(), std::optional<double>(0.1),
      std::optional<float>(),
      std::map<std::string, std::vector<bfloat16>>{
          {"a", {}}, {"b", std::vector<bfloat16>(1030, bfloat16(3.0F))}},
      std::variant<float, std::vector<half>>(std::vector<half>{half(5.0F)}), std::vector<int>{1, 2},
      std::list<std::vector<float8_e4m3>>{{float8_e4m3(2.0F)}, {}}, half(9.0F), tied, tied);
  CHECK(blocks_of(mixed) == leaves_of(cast<float>(mixed)));
  CHECK(leaf_count(mixed) == 11);
  const auto network = support::network_of(-7.0);
  CHECK(blocks_of(network) == leaves_of(cast<float>(network)));
}

TEST_CASE("leaves with strides come in the order of memory, without the gaps") {
  std::vector<float> memory(60'000);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const auto found = [&](std::vector<std::ptrdiff_t> shape, std::vector<std::ptrdiff_t> strides,
                         std::size_t first = 0) {
    const Strided<float> tensor{memory.data() + first, std::move(shape), std::move(strides)};
    return blocks_of(std::make_tuple(1.0F, tensor)).at(1);
  };
  const auto bits = [](const std::vector<float>& values) { return support::bits_of(values); };
  CHECK(found({2, 3}, {10, 1}) == bits({0, 1, 2, 10, 11, 12}));
  CHECK(found({2, 3}, {1, 2}) == bits({0, 1, 2, 3, 4, 5}));  // by columns: no gaps
  CHECK(found({2, 3}, {1, 10}) == bits({0, 1, 10, 11, 20, 21}));
  CHECK(found({4}, {-2}, 10) == bits({10, 8, 6, 4}));
  CHECK(found({0, 3}, {10, 1}).empty());
}

TEST_CASE("whatever is wrong with the tree is thrown before the first call") {
  std::size_t calls = 0;
  const auto count = [&](std::size_t, std::size_t, span<const float>) { ++calls; };
  std::vector<span<const half>> tree(3);
  const half one(1.0F);
  tree[0] = {&one, 1};
  tree[2] = {nullptr, 3};
  CHECK_INVALID("[2] is null, with a size of 3", for_each_block(tree, count));
  std::vector<float> memory(10);
  for (const auto& strides :
       std::vector<std::vector<std::ptrdiff_t>>{{0, 1}, {1, 0}, {1, 1}, {0, 0}}) {
    const Strided<float> tensor{memory.data(), {2, 3}, strides};
    CHECK_INVALID("<1> repeats elements", for_each_block(std::make_tuple(1.0F, tensor), count));
    CHECK_INVALID("the tree repeats elements", for_each_block(tensor, count));
  }
  CHECK(calls == 0);
}

TEST_CASE(
    "with several threads each element comes once; little work is left to the calling thread") {
  CHECK(wrong_elements<half>(sequential) == 0);
  for (const int threads : {1, 2, 3, 7}) {
    CHECK(wrong_elements<half>(parallel(threads)) == 0);
    CHECK(wrong_elements<float>(parallel(threads)) == 0);
  }
  std::size_t tasks = 0;
  CHECK(wrong_elements<half>(ThreadEach{&tasks}) == 0);
  CHECK(tasks == 3);
  tasks = 0;
  for_each_block(
      std::vector<half>(100'000), [](std::size_t, std::size_t, span<const float>) {},
      ThreadEach{&tasks});
  CHECK(tasks == 0);
}

TEST_CASE("an error of the function is passed on, with several threads when all have ended") {
  const std::vector<std::vector<half>> tree(3, std::vector<half>(3000));
  std::size_t calls = 0;
  CHECK_THROWS_WITH(for_each_block(tree,
                                   [&](std::size_t, std::size_t, span<const float>) {
                                     if (++calls == 3) throw std::runtime_error("third");
                                   }),
                    "third");
  CHECK(calls == 3);
  const auto large = large_tree<half>();
  std::atomic<int> inside{0};
  CHECK_THROWS_WITH(for_each_block(
                        large,
                        [&](std::size_t leaf, std::size_t offset, span<const float>) {
                          ++inside;
                          if (leaf == 3 && offset == 2048) throw std::runtime_error("there");
                          --inside;
                        },
                        parallel(3)),
                    "there");
  CHECK(inside == 1);                             // only the call that throws
  CHECK(wrong_elements<half>(parallel(3)) == 0);  // the threads work in the next call
}

TEST_CASE("anything that can be called with a block") {
  const std::vector<half> tree(3000, half(1.0F));
  std::size_t elements = 0;
  for_each_block(
      tree,
      [count = 0, &elements](auto... arguments) mutable {
        static_assert(std::is_same_v<std::tuple<decltype(arguments)...>,
                                     std::tuple<std::size_t, std::size_t, span<const float>>>);
        elements += std::get<2>(std::make_tuple(arguments...)).size();
        return ++count;  // ignored
      },
      sequential);
#if defined(__cpp_lib_span)
  for_each_block(tree, [&](std::size_t, std::size_t, std::span<const float> block) {
    elements += block.size();
  });
  elements /= 2;
#endif
  CHECK(elements == 3000);
}
