#include <headroom/ops/plan.hpp>

#include <cstddef>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/samples.hpp"

using namespace headroom::detail;
using headroom::Layout;

namespace {

const PieceKind halves_to_floats{nullptr, 2, 4}, floats{nullptr, 4, 4};

LoopNest nest_of(std::vector<std::ptrdiff_t> shape, std::vector<std::ptrdiff_t> strides) {
  Layout layout;
  for (std::size_t i = 0; i < shape.size(); ++i) layout.push(shape[i], strides[i]);
  return {layout, layout};
}
/// A plan that is written leaf by leaf.
struct Leaves : Plan {
  template <class... Leaf>
  void add(Leaf&&... leaf) {
    Writer writer(*this);
    writer.add(std::forward<Leaf>(leaf)...);
    writer.close();
  }
};
/// How many pieces each run has.
std::vector<std::ptrdiff_t> run_lengths(const Plan& plan) {
  std::vector<std::ptrdiff_t> lengths;
  for (const Plan::Run& run : plan.runs()) lengths.push_back(plan.end(run) - plan.begin(run));
  return lengths;
}

}  // namespace

TEST_CASE("neighbours of one kind form a run, in the order in which they came") {
  const unsigned char source[64] = {};
  unsigned char destination[64] = {};
  Leaves plan;
  for (std::size_t i = 0; i < 3; ++i) plan.add(source + i, destination + i, i, halves_to_floats);
  for (std::size_t i = 3; i < 5; ++i) plan.add(source + i, destination + i, i, floats);
  plan.add(source + 5, destination + 5, 5, halves_to_floats);
  CHECK(run_lengths(plan) == std::vector<std::ptrdiff_t>{3, 2, 1});
  CHECK(plan.pieces().size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const Piece& piece = plan.pieces().begin()[i];
    CHECK(piece.source == source + i);
    CHECK(piece.destination == destination + i);
    CHECK(piece.size == i);
  }
  const Plan::Run* const runs = plan.runs().begin();
  CHECK(runs[0].kind == &halves_to_floats);
  CHECK(runs[1].kind == &floats);
  CHECK(runs[2].kind == &halves_to_floats);
  for (int i = 0; i < 3; ++i) CHECK(runs[i].depth == 0);
}

TEST_CASE("a leaf with strides is a run of its own, with its loop nest; one without gaps is a piece like others") {
  float memory[64] = {};
  Leaves plan;
  plan.add(memory, memory, 4, floats);
  plan.add(memory, memory, 6, nest_of({2, 3}, {8, 1}), floats);
  plan.add(memory, memory, 6, nest_of({2, 3}, {16, 2}), floats);
  plan.add(memory, memory, 6, nest_of({2, 3}, {3, 1}), floats);
  plan.add(memory, memory, 5, floats);
  plan.add(memory, memory, 0, nest_of({0, 3}, {16, 2}), floats);  // no elements, so none with gaps
  CHECK(run_lengths(plan) == std::vector<std::ptrdiff_t>{1, 1, 1, 3});
  const Plan::Run* const runs = plan.runs().begin();
  CHECK(runs[0].depth == 0);
  CHECK(runs[3].depth == 0);
  for (const std::ptrdiff_t i : {1, 2}) {
    REQUIRE(runs[i].depth == 2);
    const Dimension* const dimensions = plan.dimensions(runs[i]);
    CHECK(dimensions[0].size == 2);
    CHECK(dimensions[0].source_stride == 8 * i);
    CHECK(dimensions[1].size == 3);
    CHECK(dimensions[1].destination_stride == i);
  }
}

TEST_CASE("bytes are counted once where a leaf is only read or worked on in place, twice otherwise") {
  float memory[64] = {};
  Leaves reads, in_place, into, several;
  reads.add(memory, nullptr, 10, floats);
  CHECK(reads.bytes() == 40);
  in_place.add(memory, memory, 10, floats);
  CHECK(in_place.bytes() == 40);
  into.add(memory, memory + 32, 10, halves_to_floats);
  CHECK(into.bytes() == 60);
  several.add(memory, memory + 32, 10, halves_to_floats);
  several.add(memory, memory, 6, nest_of({2, 3}, {8, 1}), floats);
  several.add(memory, nullptr, 1, floats);
  CHECK(several.bytes() == 60 + 24 + 4);
  CHECK(Plan().bytes() == 0);
}

TEST_CASE("a plan of many leaves grows") {
  Leaves plan;
  const unsigned char memory[1] = {};
  for (std::size_t i = 0; i < 10000; ++i) plan.add(memory, nullptr, i, i % 3 == 0 ? floats : halves_to_floats);
  CHECK(plan.pieces().size() == 10000);
  CHECK(plan.runs().size() == 6667);
  std::size_t wrong = 0, at = 0;
  for (const Plan::Run& run : plan.runs()) {
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); ++piece, ++at) {
      wrong += piece->size == at && run.kind == (at % 3 == 0 ? &floats : &halves_to_floats) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(at == 10000);
}

TEST_CASE("what one writer writes is what several do, one for each leaf, before and behind what is in the plan") {
  float memory[64] = {};
  std::mt19937 random(support::seed);
  for (int round = 0; round < 200; ++round) {
    Plan plan;
    Leaves expected;
    for (int writers = 0; writers < 3; ++writers) {
      Plan::Writer writer(plan);
      for (std::size_t leaves = random() % 50; leaves > 0; --leaves) {
        const PieceKind& kind = random() % 10 == 0 ? halves_to_floats : floats;
        const std::size_t size = random() % 60;
        if (random() % 20 == 0) {
          expected.add(memory, memory, 6, nest_of({2, 3}, {8, 1}), kind);
          writer.add(memory, memory, 6, nest_of({2, 3}, {8, 1}), kind);
        } else {
          float* const destinations[] = {memory, nullptr, memory + size};  // into another, only read, in place
          float* const destination = destinations[random() % 3];
          expected.add(memory + size, destination, size, kind);
          writer.add(memory + size, destination, size, kind);
        }
      }
      writer.close();
    }
    REQUIRE(run_lengths(plan) == run_lengths(expected));
    REQUIRE(plan.bytes() == expected.bytes());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < plan.pieces().size(); ++i) {
      const Piece &one = plan.pieces().begin()[i], &other = expected.pieces().begin()[i];
      wrong += one.source == other.source && one.destination == other.destination && one.size == other.size ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("the kind of a run has the kernels of each op of the verb, in their order") {
  using headroom::binary16;
  using headroom::binary32;
  using Two = Ops<Op::scale, Op::unscale>;
  const PieceKind& kind = Two::kind<binary16, binary32>;
  CHECK(kind.source_bytes == 2);
  CHECK(kind.destination_bytes == 4);
  CHECK(kind.kernels[0] == static_cast<const Kernel*>(kernels<Op::scale, binary16, binary32>));
  CHECK(kind.kernels[1] == static_cast<const Kernel*>(kernels<Op::unscale, binary16, binary32>));
  CHECK(&Two::kind<binary16, binary32> == &kind);  // neighbours compare addresses
  CHECK(&Two::kind<binary32, binary32> != &kind);
}
