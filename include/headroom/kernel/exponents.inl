// The exponents of a vector of elements at a time, for count_exponents.hpp, in vectors of the language of `vector_bytes` bytes.
// Included again by each file of kernel/isa/ that has a width of its own, inside its namespace and its target region: no
// include guard, no intrinsics, no macros.

typedef std::uint16_t lanes_u16 __attribute__((vector_size(vector_bytes)));
typedef std::int16_t lanes_i16 __attribute__((vector_size(vector_bytes)));
typedef std::uint32_t lanes_u32 __attribute__((vector_size(vector_bytes)));
typedef std::int32_t lanes_i32 __attribute__((vector_size(vector_bytes)));
typedef float lanes_f32 __attribute__((vector_size(vector_bytes)));

template <class Lanes>
inline Lanes loaded(const unsigned char* source) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, source, sizeof lanes);
  return lanes;
}

/// Of as many elements as there are lanes of 16 bits. A pair is two cells in the lower 16 bits of a lane, with any bits above.
struct ExponentLanes {
  lanes_u32 pairs;
  lanes_u16 is_special;  ///< all ones for a power of two, Inf, and what else the cell does not tell
};

/// Elements of 16 bits whose subnormal numbers have cells of their own, 1 to mantissa_bits, below those of normal ones. Cells
/// are below 256. Special are powers of two and Inf.
template <class Format>
inline ExponentLanes spread_exponents(const unsigned char* source) noexcept {
  constexpr std::int16_t one = 1 << Format::mantissa_bits;
  const lanes_u16 magnitude = loaded<lanes_u16>(source) & Format::abs_mask;
  const auto is_subnormal = (lanes_u16)((lanes_i16)magnitude < one);
  // As a float, an integer has the exponent of its highest digit. Zero becomes a one, and has one less than the others.
  const auto odd = (lanes_u32)(magnitude + magnitude + 1);
  const auto low = (lanes_u32) __builtin_convertvector((lanes_i32)(odd & 0xffff), lanes_f32) >> binary32::mantissa_bits;
  const auto high = (lanes_u32) __builtin_convertvector((lanes_i32)(odd >> 16), lanes_f32) >> binary32::mantissa_bits;
  const auto highest_digit = (lanes_i16)(low | high << 16);
  constexpr std::int16_t above = binary32::bias + Format::mantissa_bits;  // as a normal number has, or more
  const lanes_i16 limit = lanes_i16{} + above;
  const auto digit = (lanes_u16)(highest_digit < limit ? highest_digit : limit);
  const lanes_u16 cell = digit + (magnitude >> Format::mantissa_bits) - std::uint16_t{binary32::bias};
  const lanes_u16 below_highest = magnitude + is_subnormal;                                     // a mask is -1
  const auto is_power = (lanes_u16)((magnitude & below_highest & Format::mantissa_mask) == 0);  // or zero
  const auto both = (lanes_u32)cell;
  return {both | both >> 8, is_power ^ (lanes_u16)(magnitude == 0)};
}

/// By the exponent field, which has eight bits or less. Special are powers of two, Inf and subnormal numbers: either all digits
/// are zero, or the exponent field is, while a zero has both.
template <class Format>
inline ExponentLanes field_exponents(const unsigned char* source) noexcept {
  constexpr auto field_mask = static_cast<typename Format::bits_type>(Format::abs_mask ^ Format::mantissa_mask);
  if constexpr (sizeof(typename Format::bits_type) == 2) {
    const lanes_u16 bits = loaded<lanes_u16>(source), field = bits & field_mask;
    const auto special = (lanes_u16)((field == 0) ^ ((bits & Format::mantissa_mask) == 0));
    const auto both = (lanes_u32)field;
    return {both >> Format::mantissa_bits | both >> (Format::mantissa_bits + 8), special};
  } else {
    const lanes_u32 a = loaded<lanes_u32>(source), b = loaded<lanes_u32>(source + sizeof a);
    const lanes_u32 a_field = (a & field_mask) >> Format::mantissa_bits, b_field = (b & field_mask) >> Format::mantissa_bits;
    const auto a_special = (lanes_u32)((a_field == 0) ^ ((a & Format::mantissa_mask) == 0));
    const auto b_special = (lanes_u32)((b_field == 0) ^ ((b & Format::mantissa_mask) == 0));
    return {a_field | b_field << 8, (lanes_u16)((a_special & 0xffff) | b_special << 16)};
  }
}

/// Up to sixteen vectors: writes the lanes of their pairs, and to `special` a lane for each element of a vector, with a bit for
/// each vector.
template <class Format, bool HasCellsForAll>
inline void find_exponents(const unsigned char* source, std::size_t vectors, unsigned char* pairs,
                           unsigned char* special) noexcept {
  constexpr std::size_t step = vector_bytes / 2 * sizeof(typename Format::bits_type);
  lanes_u16 all_special{}, bit = lanes_u16{} + std::uint16_t{1};
  for (std::size_t i = 0; i < vectors; ++i, bit += bit) {
    ExponentLanes lanes;
    if constexpr (HasCellsForAll) lanes = spread_exponents<Format>(source + i * step);
    if constexpr (!HasCellsForAll) lanes = field_exponents<Format>(source + i * step);
    std::memcpy(pairs + i * vector_bytes, &lanes.pairs, vector_bytes);
    all_special |= lanes.is_special & bit;
  }
  std::memcpy(special, &all_special, vector_bytes);
}

struct Exponents {
  template <class Format, bool HasCellsForAll>
  static constexpr ExponentFinder find = {&find_exponents<Format, HasCellsForAll>, vector_bytes};
};
