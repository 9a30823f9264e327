#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulation {

// Random numbers that depend on the seed and the two keys only, so a repeated step gets the same
// ones. Mixes as splitmix64 does.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0)
      : state_(mixed(seed ^ mixed(a ^ mixed(b)))) {}
  // In (0, 1).
  double uniform() {
    return (static_cast<double>((state_ = mixed(state_)) >> 11U) + 0.5) * 0x1p-53;
  }
  double exponential() { return -std::log(uniform()); }
  // At least 1; the smaller alpha, the heavier the tail.
  double pareto(double alpha) { return std::pow(uniform(), -1.0 / alpha); }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(uniform() * end); }

 private:
  std::uint64_t state_;
};

// The time of a message of a few bytes between two ranks. docs/notes/distributed.md has the
// sources.
struct Network {
  const char* name;
  double microseconds;
};
constexpr Network networks[] = {
    {"InfiniBand HDR", 1.2}, {"Slingshot", 1.6}, {"Ethernet, TCP", 10.0}};

// A step of one rank in an all-reduce. `send` does not wait. `combine` waits for a message and
// combines it with the rank's own report. `replace` waits for a message, which replaces the report.
// Until then the message stays in a slot of the receiver.
struct Move {
  enum Kind : std::uint8_t { send, combine, replace };
  Kind kind;
  std::uint8_t slot;
  std::uint32_t peer;
};
using Moves = std::vector<Move>;
constexpr std::size_t slots = 24;

// The moves of `rank` among `size`.
using Algorithm = Moves (*)(std::uint32_t rank, std::uint32_t size);

// As in MPICH. In each round every rank exchanges with a partner, and the distance doubles. A
// neighbour represents each rank beyond a power of two. Takes floor(log2(size)) messages in a row,
// and two more if size is no power of two.
inline Moves recursive_doubling(std::uint32_t rank, std::uint32_t size) {
  std::uint32_t power = 1;
  std::uint8_t rounds = 0;
  for (; power * 2 <= size; power *= 2) ++rounds;
  const std::uint32_t represented = size - power;
  const auto last = static_cast<std::uint8_t>(rounds + 1);
  const bool is_pair = rank < 2 * represented;
  if (is_pair && rank % 2 == 0) return {{Move::send, 0, rank + 1}, {Move::replace, last, rank + 1}};
  Moves moves;
  if (is_pair) moves.push_back({Move::combine, 0, rank - 1});
  const std::uint32_t place = is_pair ? rank / 2 : rank - represented;
  std::uint8_t round = 1;
  for (std::uint32_t distance = 1; distance < power; distance *= 2, ++round) {
    const std::uint32_t partner = place ^ distance;
    const std::uint32_t peer = partner < represented ? 2 * partner + 1 : partner + represented;
    moves.push_back({Move::send, round, peer});
    moves.push_back({Move::combine, round, peer});
  }
  if (is_pair) moves.push_back({Move::send, last, rank - 1});
  return moves;
}

// A binomial tree to rank 0, and back: 2 ceil(log2(size)) messages in a row.
inline Moves tree(std::uint32_t rank, std::uint32_t size) {
  Moves moves;
  std::uint8_t level = 0;
  std::uint32_t distance = 1;
  for (; distance < size && (rank & distance) == 0; distance *= 2, ++level) {
    if (rank + distance < size) moves.push_back({Move::combine, level, rank + distance});
  }
  constexpr std::uint8_t down = slots - 1;
  if (rank != 0) {
    moves.push_back({Move::send, level, rank - distance});
    moves.push_back({Move::replace, down, rank - distance});
  }
  while ((distance /= 2) != 0) {
    if (rank + distance < size) moves.push_back({Move::send, down, rank + distance});
  }
  return moves;
}

// Once around to sum, and once to distribute: 2 (size - 1) messages in a row. Rings are fast for
// gradients because each rank sends a share of them. 32 bytes cannot be shared out.
inline Moves ring(std::uint32_t rank, std::uint32_t size) {
  if (size == 1) return {};
  const std::uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  Moves moves;
  if (rank != 0) moves.push_back({Move::combine, 0, before});
  moves.push_back({Move::send, static_cast<std::uint8_t>(next == 0 ? 1 : 0), next});
  if (rank != size - 1) moves.push_back({Move::replace, 1, before});
  if (rank + 2 < size) moves.push_back({Move::send, 1, next});
  return moves;
}

// No communication.
inline Moves nothing(std::uint32_t, std::uint32_t) { return {}; }

}  // namespace simulation
