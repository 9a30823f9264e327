#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/prefetch.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa/exponents.hpp>
#include <headroom/kernel/table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

// Elements by their binary exponents. Adding one to a counter takes longer than all else about an element, for it waits for the
// last addition to the same counter, so elements are counted in pairs: a table has a counter for each pair of exponents, and
// four of them take turns. Exact powers of two, and what else a pair of exponents does not tell, go one by one as well.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What has been counted; `largest` is that of the finite elements. Zeros are what is left of the elements.
struct ExponentTally : Found {
  static constexpr int lowest = -1074, highest = 1023;  // the exponents of doubles
  struct Bin {
    std::uint64_t count = 0, powers_of_two = 0;
  };
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  static constexpr std::size_t cells = 256, tables = 4;

  Bin bins[highest - lowest + 1];
  std::uint64_t elements = 0, infs = 0, nans = 0;
  std::uint64_t subnormals = 0;  ///< in the element's own format
  /// `tables` counters for each pair of cells. All are zero between two calls of a kernel. By calloc, which leaves it to the
  /// first use of a page to make it zeros: most are never used. Null until they are worth it, or if there is no memory; then
  /// elements go one by one.
  std::unique_ptr<std::uint16_t[], Free> pairs;

  ExponentTally() noexcept : Found{0, 0.0} {}
  [[nodiscard]] Bin& bin(int exponent) noexcept { return bins[exponent - lowest]; }
  [[nodiscard]] bool get_pairs() noexcept {
    if (pairs == nullptr) pairs.reset(static_cast<std::uint16_t*>(std::calloc(cells * cells * tables, sizeof(std::uint16_t))));
    return pairs != nullptr;
  }
  void clear() noexcept {
    for (Bin& each : bins) each = {};
    elements = infs = nans = subnormals = 0;
    largest = 0;
  }
};

/// The kernel of a format.
template <class Format>
class ExponentCounter {
  using Bits = typename Format::bits_type;
  static constexpr int mantissa_bits = Format::mantissa_bits;
  static constexpr int top = (1 << Format::exponent_bits) - 1;  // the highest exponent field
  static_assert(1 - Format::bias - mantissa_bits >= ExponentTally::lowest && top - Format::bias <= ExponentTally::highest + 1,
                "headroom: numbers of this format are beyond the range of double");

 public:
  static void count(const Piece* piece, const Piece* last, double, Found& found) noexcept {
    ExponentCounter counter(static_cast<ExponentTally&>(found));
    std::size_t n = 0;
    for (const Piece* each = piece; each != last; ++each) n += each->size;
    counter.tally_.elements += n;
    const bool by_tables = has_tables && n >= worth_tables && counter.tally_.get_pairs();
    for (; piece != last; ++piece) {
      const auto* const elements = static_cast<const unsigned char*>(piece->source);
      for (std::size_t done = 0; done < piece->size; done += block) {
        const std::size_t rest = piece->size - done;
        counter.add_block(elements + done * sizeof(Bits), rest < block ? rest : block, by_tables);
      }
    }
    counter.empty_tables();
  }

 private:
  static constexpr std::size_t block = sizeof(Bits) == 1 ? 16384 : 512;  // elements; they stay in the first cache
  static constexpr std::size_t worth_tables = 8192;     // elements: the tables themselves cost as much as so many one by one
  static constexpr std::uint32_t full = 65535 - block;  // of a counter of 16 bits, with room for a block
  static constexpr bool is_ieee = Format::has_infinity && Format::largest_finite_bits >> mantissa_bits == top - 1;
  static constexpr bool has_tables =
      HEADROOM_DETAIL_HAS_VECTORS && is_ieee && Format::exponent_bits <= 8 && (sizeof(Bits) == 2 || sizeof(Bits) == 4);
  /// Whether subnormal numbers have cells, as the many in fp16 need them. Gradients do not reach those of float and bfloat16.
  static constexpr bool has_cells_for_all = sizeof(Bits) == 2 && mantissa_bits + top < static_cast<int>(ExponentTally::cells);
  static constexpr int cells_below = has_cells_for_all ? mantissa_bits : 0;  // exponent field 1

  static constexpr bool is_little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

  explicit ExponentCounter(ExponentTally& tally) noexcept : tally_(tally) {}

  static Bits bits_at(const unsigned char* elements, std::size_t i) noexcept {
    Bits bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    return bits;
  }

  void add_block(const unsigned char* elements, std::size_t n, bool by_tables) noexcept {
    // From memory while this one is counted: counting keeps the processor too busy to look ahead.
    for (std::size_t byte = 0; byte < n * sizeof(Bits); byte += cache_line) prefetch(elements, 2048 + byte);
    if (in_tables_ > full) empty_tables();  // before this block's largest raises highest_cell_
    find_largest(elements, n);
    std::size_t done = 0;
    if constexpr (has_tables) {
      if (by_tables) done = add_to_tables(elements, n);
    }
    if constexpr (sizeof(Bits) == 1) {
      std::uint32_t counts[4][256] = {};
      for (; done < n; ++done) ++counts[done % 4][elements[done]];
      for (std::size_t bits = 0; bits < 256; ++bits) {
        add(static_cast<Bits>(bits), counts[0][bits] + counts[1][bits] + counts[2][bits] + counts[3][bits]);
      }
    }
    for (; done < n; ++done) add(bits_at(elements, done), 1);
  }

  /// Of the finite elements.
  void find_largest(const unsigned char* elements, std::size_t n) noexcept {
    const Piece piece{elements, nullptr, n};
    Found found{0, 0.0};
    kernels<Op::max_abs, Format>[isa_index_](&piece, &piece + 1, 1.0, found);
    const int exponent = static_cast<int>(found.largest >> binary64::mantissa_bits) - binary64::bias;
    int highest = exponent + Format::bias + cells_below;
    if (found.largest >= binary64::infinity_bits) {
      highest = top + cells_below;
      Bits largest = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const auto magnitude = static_cast<Bits>(bits_at(elements, i) & Format::abs_mask);
        if (magnitude <= Format::largest_finite_bits && magnitude > largest) largest = magnitude;
      }
      found.largest = convert_bits<Format, binary64>(largest);
    }
    if (found.largest > tally_.largest) tally_.largest = found.largest;
    if (highest > static_cast<int>(highest_cell_)) highest_cell_ = static_cast<std::size_t>(highest);
  }

  static int exponent_of(Bits magnitude) noexcept {
    const auto field = static_cast<int>(magnitude >> mantissa_bits);
    return field != 0 ? field - Format::bias : 64 - __builtin_clzll(magnitude) - Format::bias - mantissa_bits;
  }
  /// So many elements with these bits.
  void add(Bits bits, std::uint32_t n) noexcept {
    const auto magnitude = static_cast<Bits>(bits & Format::abs_mask);
    if (magnitude == 0) return;
    if (magnitude > Format::largest_finite_bits) {
      (magnitude >= Format::smallest_nan_bits ? tally_.nans : tally_.infs) += n;
      return;
    }
    const bool is_subnormal = magnitude >> mantissa_bits == 0;
    const auto digits = static_cast<Bits>(magnitude & Format::mantissa_mask);
    const bool is_power = is_subnormal ? (digits & (digits - 1)) == 0 : digits == 0;
    ExponentTally::Bin& bin = tally_.bin(exponent_of(magnitude));
    bin.count += n;
    bin.powers_of_two += is_power ? n : 0;
    tally_.subnormals += is_subnormal ? n : 0;
  }

#if HEADROOM_DETAIL_HAS_VECTORS
  template <int... isas>
  static ExponentFinder finder_of(std::size_t isa, std::integer_sequence<int, isas...>) noexcept {
    constexpr ExponentFinder finders[] = {IsaExponents<static_cast<Isa>(isas)>::template find<Format, has_cells_for_all>...};
    return finders[isa];
  }

  /// Whole vectors, from the beginning of the block; returns how many elements they have.
  std::size_t add_to_tables(const unsigned char* elements, std::size_t n) noexcept {
    const auto [find, vector_bytes] = finder_of(isa_index_, std::make_integer_sequence<int, isa_count>());
    const std::size_t step = vector_bytes / 2, group = 16 * step, whole = n - n % step;
    unsigned char pairs[2 * block], special[64];  // 64: the longest vector
    for (std::size_t begin = 0; begin < whole; begin += group) {
      const unsigned char* const from = elements + begin * sizeof(Bits);
      find(from, (whole - begin < group ? whole - begin : group) / step, pairs + 2 * begin, special);
      add_special(from, special, step);
    }
    count_pairs(pairs, whole);
    return whole;
  }
  void count_pairs(const unsigned char* pair, std::size_t elements) noexcept {
    std::uint16_t* const counters = tally_.pairs.get();
    for (const unsigned char* const end = pair + 2 * elements; pair != end; pair += 16) {
      ++counters[4 * cells_at(pair)];
      ++counters[4 * cells_at(pair + 4) + 1];
      ++counters[4 * cells_at(pair + 8) + 2];
      ++counters[4 * cells_at(pair + 12) + 3];
    }
    in_tables_ += static_cast<std::uint32_t>(elements / 8);
  }
  static std::size_t cells_at(const unsigned char* pair) noexcept {
    std::uint16_t cells;
    std::memcpy(&cells, pair + (is_little_endian ? 0 : 2), sizeof cells);
    return cells;
  }
  /// What the cells of a group do not tell, as find_exponents writes it, with so many elements in a vector.
  void add_special(const unsigned char* elements, const unsigned char* special, std::size_t step) noexcept {
    for (std::size_t first_lane = 0; first_lane < step; first_lane += 4) {
      std::uint64_t bits;
      std::memcpy(&bits, special + 2 * first_lane, sizeof bits);
      for (; bits != 0; bits &= bits - 1) {
        const auto bit = static_cast<std::size_t>(__builtin_ctzll(bits));
        const std::size_t lane = first_lane + (is_little_endian ? bit / 16 : 3 - bit / 16);
        const std::size_t i = sizeof(Bits) == 4 ? element_in_lane(lane, step) : lane;
        add_special(static_cast<Bits>(bits_at(elements, bit % 16 * step + i) & Format::abs_mask));
      }
    }
  }
  /// Elements of 32 bits: those of the first half of a vector have every other lane.
  static std::size_t element_in_lane(std::size_t lane, std::size_t step) noexcept {
    const bool is_first = (lane % 2 == 0) == is_little_endian;
    return lane / 2 + (is_first ? 0 : step / 2);
  }
  void add_special(Bits magnitude) noexcept {
    if (magnitude > Format::largest_finite_bits) {
      ++infs_;
    } else if (!has_cells_for_all && magnitude >> mantissa_bits == 0) {
      add(magnitude, 1);
    } else {
      ++tally_.bin(exponent_of(magnitude)).powers_of_two;
    }
  }
#else
  std::size_t add_to_tables(const unsigned char*, std::size_t) noexcept { return 0; }
#endif

  void empty_tables() noexcept {
    if (!has_tables || in_tables_ == 0) return;
    std::uint64_t counts[ExponentTally::cells] = {};
    std::uint64_t left = 4 * std::uint64_t{in_tables_};
    // From above, as far as there is anything: what nobody has used is better not read, for that would make it pages of memory.
    left -= take(counts, 0, 0);
    for (std::size_t cell = highest_cell_; cell > 0 && left > 0; --cell) left -= take(counts, 0, cell) + take(counts, cell, 0);
    for (std::size_t a = highest_cell_; a > 0 && left > 0; --a) {
      for (std::size_t b = highest_cell_; b > 0; --b) left -= take(counts, a, b);
    }
    in_tables_ = 0;
    highest_cell_ = 0;
    add_cells(counts);
  }
  std::uint64_t take(std::uint64_t* counts, std::size_t a, std::size_t b) noexcept {
    std::uint16_t* const counters = tally_.pairs.get() + 4 * (a * ExponentTally::cells + b);
    std::uint64_t all;
    std::memcpy(&all, counters, sizeof all);
    if (all == 0) return 0;
    std::memset(counters, 0, sizeof all);
    const std::uint64_t count = (all & 0xffff) + (all >> 16 & 0xffff) + (all >> 32 & 0xffff) + (all >> 48);
    counts[a] += count;
    counts[b] += count;
    return count;
  }
  void add_cells(const std::uint64_t* counts) noexcept {
    const int infinite = cells_below + top;
    for (int cell = 1; cell < infinite; ++cell) {
      if (counts[cell] == 0) continue;
      tally_.bin(cell - cells_below - Format::bias).count += counts[cell];
      if (cell <= cells_below) tally_.subnormals += counts[cell];
    }
    tally_.infs += infs_;
    tally_.nans += counts[infinite] - infs_;
    infs_ = 0;
  }

  ExponentTally& tally_;
  std::size_t isa_index_ = isa_index();
  std::uint32_t in_tables_ = 0;   // of each table
  std::size_t highest_cell_ = 0;  // in use
  std::uint64_t infs_ = 0;        // among them
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
