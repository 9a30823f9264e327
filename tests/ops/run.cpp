// Passes on several threads: every verb gives the same bits for any number of threads.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/kernels.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using namespace headroom;
using support::bits_of;

namespace {

// More than a MiB, because one thread does less than that. Sizes are no multiples of a piece, and
// one leaf is strided.
struct Big {
  std::vector<std::vector<half>> leaves;
  std::vector<float> store;
  support::Strided<float> strided;
  std::vector<double> last;
  half end = half(3.0F);  // in the two bytes left over when three threads divide the bytes
  HEADROOM_TREE(Big, leaves, strided, last, end)

  Big() : store(200003 * 2) {
    std::mt19937 random(support::seed);
    for (const std::size_t size : {1U, 65536U, 65537U, 0U, 300001U, 17U}) {
      leaves.emplace_back();
      for (std::size_t i = 0; i < size; ++i) {
        leaves.back().push_back(half::from_bits(support::random_finite_bits<binary16>(random)));
      }
    }
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& element : store) element = uniform(random);
    strided = {store.data(), {200003}, {2}};
    for (int i = 0; i < 1000; ++i) last.push_back(static_cast<double>(uniform(random)));
  }
  Big(const Big&) = delete;
  Big& operator=(const Big&) = delete;

  [[nodiscard]] auto bits() const {
    std::vector<std::vector<std::uint16_t>> halves;
    for (const auto& leaf : leaves) halves.push_back(bits_of(leaf));
    return std::make_tuple(halves, bits_of(store), bits_of(last), bits_of(end));
  }
};

const ConstantLossScale policy(3.0F);

bool same(const GradientReport& a, const GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

}  // namespace

TEST_CASE("parallel results are those of one thread, bit for bit") {
  Big expected;
  const auto measured = measure(expected);
  const auto cast_halves = cast<float>(expected.leaves);
  const auto unscaled_halves = policy.unscale(expected.leaves);
  const auto report = policy.unscale_in_place<allow_fp16_gradients>(expected);
  const auto clipped = policy.unscale_and_clip_in_place<allow_fp16_gradients>(expected, 0.1);
  for (int threads = 1; threads <= 5; ++threads) {
    INFO(threads << " threads");
    Big tree;
    const auto found = measure(tree, parallel(threads));
    CHECK(same(found, measured));
    CHECK(bits_of(found.norm) == bits_of(measured.norm));
    CHECK(all_finite(tree, parallel(threads)));

    const auto casted = cast<float>(tree.leaves, parallel(threads));
    const auto unscaled = policy.unscale(tree.leaves, parallel(threads));
    CHECK(same(unscaled.report, unscaled_halves.report));
    for (std::size_t leaf = 0; leaf < casted.size(); ++leaf) {
      CHECK(bits_of(casted[leaf]) == bits_of(cast_halves[leaf]));
      CHECK(bits_of(unscaled.grads[leaf]) == bits_of(unscaled_halves.grads[leaf]));
    }
    CHECK(same(policy.unscale_in_place<allow_fp16_gradients>(tree, parallel(threads)), report));
    const auto clip =
        policy.unscale_and_clip_in_place<allow_fp16_gradients>(tree, 0.1, parallel(threads));
    CHECK(same(clip, clipped));
    CHECK(bits_of(clip.norm) == bits_of(clipped.norm));
    CHECK(tree.bits() == expected.bits());
  }
}

namespace {

using namespace headroom::detail;
using MeasureOps = Ops<Op::max_abs, Op::measure>;

/// Floats in leaves of many sizes, one of them strided, and the plan that reads them.
struct Leaves {
  std::vector<std::vector<float>> leaves;
  std::vector<float> store = std::vector<float>(6 * 70001);
  Plan plan;

  Leaves() {
    std::mt19937 random(support::seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (const std::size_t size : {5U, 65536U, 1U, 0U, 70000U, 131072U, 3U}) {
      leaves.emplace_back(size);
      for (float& element : leaves.back()) element = uniform(random);
    }
    for (float& element : store) element = uniform(random);
    make_plan<MeasureOps, Access::read>(plan, leaves);
    const support::Strided<float> strided{store.data(), {2, 70001}, {3 * 70001, 3}};
    make_plan<MeasureOps, Access::read>(plan, strided);
  }
};

/// Runs shares from the last to the first.
struct Backwards {
  std::size_t shares;
  [[nodiscard]] std::size_t concurrency() const { return shares; }
  void run(std::size_t n, const std::function<void(std::size_t)>& task) const {
    while (n-- > 0) task(n);
  }
};

bool same(const Found& a, const Found& b) {
  return a.max_abs == b.max_abs && bits_of(a.sum_of_squares) == bits_of(b.sum_of_squares);
}

std::size_t kernel_calls = 0;
void count_calls(const Piece* first, const Piece* last, const Pass& pass, Found& found) {
  ++kernel_calls;
  IsaKernels<Isa::portable>::find<Op::max_abs, binary32, binary32>()(first, last, pass, found);
}

}  // namespace

TEST_CASE(
    "every element is in one group, and every group in one share, in order, whatever their "
    "number") {
  const Leaves leaves;
  std::mt19937 random(support::seed);
  std::vector<std::vector<float>> many(500);
  for (auto& leaf : many) leaf.assign(random() % 7 == 0 ? 0 : random() % 300, 1.0F);
  for (const std::size_t large : {3U, 100U, 499U})
    many[large].assign(group_size + random() % 100000, 1.0F);
  Plan of_many;
  make_plan<ScaleOps, Access::in_place>(of_many, many);
  for (const Plan* const plan : {&leaves.plan, &std::as_const(of_many)}) {
    for (const std::size_t count : {1U, 2U, 3U, 4U, 7U, 64U, 1000U}) {
      INFO(count << " shares");
      std::vector<std::vector<std::size_t>> numbers(count);
      std::vector<std::size_t> seen(plan->pieces.size());
      Backwards{count}.run(count, [&](std::size_t share) {
        Groups groups(*plan, share, count, group_size);
        for (Group group; groups.next(group);) {
          numbers[share].push_back(group.number);
          std::size_t elements = 0;
          for (const Piece* piece = group.first; piece != group.last; ++piece) {
            std::size_t& so_far = seen[plan->place_of(*piece)];
            if (count == 1) CHECK(group.begin == so_far);
            so_far += group.end_in(*piece) - group.begin;
            elements += group.end_in(*piece) - group.begin;
          }
          CHECK(elements <= group_size);
        }
      });
      std::size_t next = 0, wrong = 0;
      for (const auto& share : numbers) {
        for (const std::size_t number : share) wrong += number == next++ ? 0 : 1;
      }
      for (const Piece& piece : plan->pieces)
        wrong += seen[plan->place_of(piece)] == piece.size ? 0 : 1;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE(
    "two threads share the fewest elements that two threads work on, and one has less alone") {
  std::size_t tasks = 0;
  struct Counting : Backwards {
    std::size_t* tasks;
    void run(std::size_t n, const std::function<void(std::size_t)>& task) const {
      *tasks += n, Backwards::run(n, task);
    }
  };
  const Counting two_threads{{2}, &tasks};
  std::vector<float> tree(2 * least_share, 6.0F);
  CHECK(count_shares(two_threads, tree.size()) == 2);
  CHECK(unscale_in_place(tree, 2.0F, two_threads).max_abs == 3.0);
  CHECK(tasks == 2);
  CHECK(tree == std::vector<float>(2 * least_share, 3.0F));
  tree.pop_back();
  CHECK(unscale_in_place(tree, 2.0F, two_threads).max_abs == 1.5);
  CHECK(tasks == 2);
}

TEST_CASE("the instruction set is chosen before work is shared, because that may throw") {
  const headroom::Isa before = headroom::active_isa();
  for (const std::size_t elements : {std::size_t{1}, 2 * least_share}) {
    headroom::shared_v1::chosen_isa = -1;
    (void)count_shares(Backwards{2}, elements);
    CHECK(headroom::shared_v1::chosen_isa >= 0);
  }
  headroom::force_isa(before);
}

TEST_CASE("a pass finds the same whoever runs it, and in which order") {
  const Leaves leaves;
  const Pass pass{Op::measure};
  const Found expected = run(leaves.plan, pass, sequential);
  CHECK(expected.sum_of_squares > 0.0);
  for (const std::size_t shares : {0U, 1U, 2U, 3U, 40U})
    CHECK(same(run(leaves.plan, pass, Backwards{shares}), expected));
  CHECK(run(leaves.plan, Pass{Op::max_abs}, Backwards{3}).max_abs == expected.max_abs);
}

TEST_CASE("a pass that may stop ends at a group that is not finite; others go on") {
  std::vector<float> tree(4 * group_size, 1.0F);
  support::set_bits(tree[group_size], binary32::infinity_bits);
  PieceKind kind{{}, sizeof(float), sizeof(float), true};
  kind.kernels[static_cast<int>(Op::max_abs)] = support::on_every_isa<&count_calls>();
  Plan plan;
  Plan::Writer writer(plan);
  writer.add(tree.data(), nullptr, tree.size(), kind);
  writer.close();
  for (const bool may_stop : {false, true}) {
    kernel_calls = 0;
    CHECK_FALSE(is_finite(run(plan, Pass{Op::max_abs, 1.0, may_stop}, Backwards{1})));
    // Groups; without a reason to stop all are one group
    CHECK(kernel_calls == (may_stop ? 2 : 1));
  }
}

TEST_CASE("an Inf in the first gradient leaves none of the others out, with one thread or two") {
  for (const int threads : {1, 2}) {
    std::vector<std::vector<float>> tree(6, std::vector<float>(200'000, 6.0F));
    support::set_bits(tree[0][0], binary32::infinity_bits);
    CHECK_FALSE(unscale_in_place(tree, 2.0F, parallel(threads)).finite);
    std::ptrdiff_t unscaled = 0;
    for (const auto& leaf : tree) unscaled += std::count(leaf.begin(), leaf.end(), 3.0F);
    CHECK(unscaled == 6 * 200'000 - 1);
  }
}
