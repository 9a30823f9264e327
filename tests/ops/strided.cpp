// Passes over leaves with strides.
#include <headroom/ops/run.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/kernels.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using namespace headroom::detail;
using headroom::Layout;

namespace {

/// A tensor of random shape with gaps between its elements, in memory of `span` elements. Some
/// strides are negative.
struct RandomTensor {
  Layout layout;
  std::ptrdiff_t first = 0, span = 1;

  RandomTensor(const std::vector<std::ptrdiff_t>& shape, std::mt19937& random) {
    std::vector<std::size_t> order(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::ptrdiff_t> strides(shape.size());
    for (const std::size_t i : order) {
      strides[i] = span + static_cast<std::ptrdiff_t>(random() % 3);
      span += strides[i] * (shape[i] - 1);
      if (random() % 4 == 0) {
        first += strides[i] * (shape[i] - 1);
        strides[i] = -strides[i];
      }
    }
    for (std::size_t i = 0; i < shape.size(); ++i) layout.push(shape[i], strides[i]);
  }
};
std::vector<std::ptrdiff_t> random_shape(std::mt19937& random) {
  std::vector<std::ptrdiff_t> shape(1 + random() % 4);
  for (std::ptrdiff_t& size : shape) size = 1 + static_cast<std::ptrdiff_t>(random() % 7);
  return shape;
}

/// A simple kernel: destination = source * factor, or += source * factor, in int32.
template <bool Adds>
void multiply(const Piece* first, const Piece* last, const Pass& pass, Found& found) {
  for (const Piece* piece = first; piece != last; ++piece) {
    const auto* const source = static_cast<const std::int32_t*>(piece->source);
    auto* const destination = static_cast<std::int32_t*>(piece->destination);
    for (std::size_t i = 0; i < piece->size; ++i) {
      destination[i] =
          source[i] * static_cast<std::int32_t>(pass.factor) + (Adds ? destination[i] : 0);
    }
    found.max_abs += piece->size;
  }
}
const PieceKind kind = [] {
  PieceKind of_integers{{}, sizeof(std::int32_t), sizeof(std::int32_t)};
  of_integers.kernels[static_cast<int>(Op::scale)] = support::on_every_isa<&multiply<false>>();
  of_integers.kernels[static_cast<int>(Op::add_scaled)] = support::on_every_isa<&multiply<true>>();
  return of_integers;
}();

/// Compares a pass over elements [begin, end) of two random tensors of one shape with a loop by
/// hand.
template <bool Adds>
void check_pass(std::mt19937& random) {
  const auto shape = random_shape(random);
  const RandomTensor from(shape, random), to(shape, random);
  const LoopNest nest(from.layout, to.layout);
  if (nest.is_contiguous()) return;
  std::vector<std::int32_t> source(static_cast<std::size_t>(from.span)),
      destination(static_cast<std::size_t>(to.span));
  for (std::int32_t& element : source) element = static_cast<std::int32_t>(random() % 1000);
  for (std::int32_t& element : destination) element = static_cast<std::int32_t>(random() % 1000);

  const auto size = static_cast<std::size_t>(from.layout.size());
  const std::size_t begin = random() % size, end = begin + 1 + random() % (size - begin);
  auto expected = destination;
  const auto offsets = support::places_of({nest.dimensions, nest.dimensions + nest.depth});
  for (std::size_t i = begin; i < end; ++i) {
    std::int32_t& element = expected[static_cast<std::size_t>(to.first + offsets[i].second)];
    element =
        source[static_cast<std::size_t>(from.first + offsets[i].first)] * 3 + (Adds ? element : 0);
  }

  Plan plan;
  Plan::Writer writer(plan);
  writer.add(source.data() + from.first, destination.data() + to.first, size, nest, kind);
  writer.close();
  const Pass pass{Adds ? Op::add_scaled : Op::scale, 3.0};
  Found found{0, 0.0};
  run_piece(plan, *plan.segments.begin(), *plan.pieces.begin(), pass, begin, end, found);
  CHECK(destination == expected);
  CHECK(found.max_abs == end - begin);
}

}  // namespace

TEST_CASE("a pass over any elements of a strided leaf works on these and no others") {
  std::mt19937 random(support::seed);
  for (int round = 0; round < 500; ++round) {
    check_pass<false>(random);
    check_pass<true>(random);
  }
}

TEST_CASE("in place, elements go through one buffer; a pass that only reads writes nowhere") {
  std::vector<std::int32_t> values(3000), expected(3000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = expected[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = 0; i < values.size(); i += 3) expected[i] *= 3;
  Layout layout;
  layout.push(1000, 3);
  const auto run = [&](void* destination) {
    Plan plan;
    Plan::Writer writer(plan);
    writer.add(values.data(), destination, 1000, LoopNest(layout, layout), kind);
    writer.close();
    Found found{0, 0.0};
    run_piece(plan, *plan.segments.begin(), *plan.pieces.begin(), Pass{Op::scale, 3.0}, 0, 1000,
              found);
    CHECK(found.max_abs == 1000);
  };
  run(values.data());
  CHECK(values == expected);
  run(nullptr);
  CHECK(values == expected);
}
