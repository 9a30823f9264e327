// The kernels that store 8-bit formats, with one factor for all elements, or with a scale for each block of 32, as in the MX
// formats of the OCP Microscaling specification, version 1.0. kernels.inl includes this file, so there is no include guard
// here and no intrinsic.
//
// Four registers of floats become one register of codes. The end of a piece, shorter than that, is
// processed in a buffer. Everything is inlined, because g++ would pass quads through memory. Stores that bypass the caches
// would gain little, because most of the traffic is reading.

template <class In>
using magnitudes_of = decltype(load<lanes_of<compute_for<In, In>>>(In{}, nullptr));

/// Processes one wide register.
template <class In, class Out, class Wide, class Bits>
inline void quantize_register(const unsigned char* source, unsigned char* codes, Wide factor, Bits& largest) noexcept {
  const auto elements = load<lanes_of<Wide>>(In{}, source);
  largest = max_of_abs(In{}, largest, elements);
  store(codes, narrow(saturating<Out>{}, multiplied(widen<Wide>(In{}, elements), factor)));
}
template <class In, class Out>
[[gnu::flatten]] void quantize(const Piece* piece, const Piece* last, double factor, bool, Found& found) noexcept {
  using Wide = wide_compute_for<In, Out>;
  constexpr std::size_t width = lanes_of<Wide>;
  const Wide lanes = broadcast<Wide>(factor);
  magnitudes_of<In> largest{};
  for (; piece != last; ++piece) {
    Piece rest = *piece;
    for (; rest.size >= width; rest = after<In, Out>(rest, width)) {
      const unsigned char* const source = element_at<In>(rest.source, 0);
      for (std::size_t byte = 0; byte < width * bytes_each<In>; byte += cache_line) prefetch(source, 1024 + byte);
      quantize_register<In, Out>(source, element_at<Out>(rest.destination, 0), lanes, largest);
    }
    if (rest.size == 0) continue;
    alignas(cache_line) unsigned char padded[width * bytes_each<In>] = {}, codes[width];
    std::memcpy(padded, rest.source, rest.size * bytes_each<In>);
    quantize_register<In, Out>(padded, codes, lanes, largest);
    std::memcpy(rest.destination, codes, rest.size);
  }
  add_largest<In>(found, largest_lane(largest));
}

// ---- MX. The scale 2^(byte - 127) is a float for every byte except 255, which is NaN. Pieces come in pairs: see Op. Four
// blocks are processed at once, because their four scales take no longer than one ----

typedef std::uint32_t u32x4 HEADROOM_DETAIL_VECTOR(16);
typedef std::int32_t i32x4 HEADROOM_DETAIL_VECTOR(16);
inline constexpr std::size_t mx_blocks = sizeof(u32x4) / 4, mx_group = mx_blocks * mx_block;

/// The bytes of the scales of four blocks, from their largest magnitudes as floats: see MxScale. 255 for one that is Inf or
/// NaN, or that becomes Inf when it is rounded. torchao's rceil multiplies by the rounded reciprocal of the largest number. The
/// comparison of mantissas gives the same results, with one exception for the exponent whose product is subnormal.
template <class Out>
inline u32x4 mx_scale_bytes(u32x4 largest, MxScale rule) noexcept {
  constexpr std::uint32_t largest_number = convert_bits<Out, binary32>(Out::largest_finite_bits);
  constexpr int mantissa_bits = binary32::mantissa_bits;
  constexpr int emax = static_cast<int>(largest_number >> mantissa_bits) - binary32::bias;
  if (rule == MxScale::even) largest += 1U << (mantissa_bits - 1 - Out::mantissa_bits);
  const u32x4 mantissas = largest & binary32::mantissa_mask;
  const auto exponents = (i32x4)(largest >> mantissa_bits);
  u32x4 limits = u32x4{} + (rule == MxScale::ceil ? 0 : binary32::mantissa_mask);
  if (rule == MxScale::rceil) limits = (largest_number & binary32::mantissa_mask) + ((u32x4)(exponents == emax) & 1U);
  const i32x4 bytes = exponents - emax + ((i32x4)(mantissas > limits) & 1);  // in vectors, true is -1
  return (u32x4)(largest >= binary32::infinity_bits ? i32x4{} + 255 : bytes > 0 ? bytes : i32x4{});
}

/// One factor for all elements of a register, or one for each half if it is longer than a block.
template <class Wide>
inline Wide mx_factors(const float* factors) noexcept {
  if constexpr (lanes_of<Wide> <= mx_block) {
    return broadcast<Wide>(static_cast<double>(factors[0]));
  } else {
    using Register = decltype(Wide::a);
    const auto a = broadcast<Register>(static_cast<double>(factors[0]));
    const auto b = broadcast<Register>(static_cast<double>(factors[1]));
    return {a, a, b, b};
  }
}

/// Processes four blocks. Returns whether one of them has become NaN.
template <class In, class Out, class Bits>
inline bool mx_quantize_group(const unsigned char* source, unsigned char* codes, unsigned char* scales, MxScale rule,
                              Bits& largest) noexcept {
  using Wide = wide_compute_for<In, Out>;
  constexpr std::size_t width = lanes_of<Wide>;
  u32x4 magnitudes{};
  for (std::size_t i = 0; i < mx_blocks; ++i) {
    const unsigned char* const block = element_at<In>(source, i * mx_block);
    const Bits here = largest_in<In>(block, mx_block, Bits{});
    HEADROOM_DETAIL_LANE(magnitudes, i) = convert_bits<In, binary32>(largest_lane(here));
    largest = larger(largest, here);
  }
  const u32x4 bytes = mx_scale_bytes<Out>(magnitudes, rule);
  float reciprocals[mx_blocks];  // of the scales; no byte is 254
  for (std::size_t i = 0; i < mx_blocks; ++i) {
    scales[i] = static_cast<unsigned char>(HEADROOM_DETAIL_LANE(bytes, i));
    reciprocals[i] = bit_cast<float>((254 - HEADROOM_DETAIL_LANE(bytes, i)) << binary32::mantissa_bits);
  }
  for (std::size_t i = 0; i < mx_group; i += width) {
    const auto elements = load<width>(In{}, element_at<In>(source, i));
    const Wide value = multiplied(widen<Wide>(In{}, elements), mx_factors<Wide>(reciprocals + i / mx_block));
    store(codes + i, narrow(saturating<Out>{}, value));
  }
  bool some_nan = false;
  for (std::size_t i = 0; i < mx_blocks; ++i) {
    if (HEADROOM_DETAIL_LANE(bytes, i) != 255) continue;
    std::memset(codes + i * mx_block, Out::quiet_nan_bits, mx_block);
    some_nan = true;
  }
  return some_nan;
}
template <class In, class Out>
[[gnu::flatten]] void mx_quantize(const Piece* piece, const Piece* last, double rule_number, bool, Found& found) noexcept {
  const auto rule = static_cast<MxScale>(static_cast<int>(rule_number));
  constexpr std::size_t bytes_of_group = mx_group * bytes_each<In>;
  decltype(load<read_lanes<In>>(In{}, nullptr)) largest{};
  bool some_nan = false;
  for (; piece != last; piece += 2) {
    auto* scales = static_cast<unsigned char*>(piece[1].destination);
    Piece rest = piece[0];
    for (; rest.size >= mx_group; rest = after<In, Out>(rest, mx_group), scales += mx_blocks) {
      const unsigned char* const source = element_at<In>(rest.source, 0);
      for (std::size_t byte = 0; byte < bytes_of_group; byte += cache_line) prefetch(source, 2048 + byte);
      some_nan |= mx_quantize_group<In, Out>(source, element_at<Out>(rest.destination, 0), scales, rule, largest);
    }
    if (rest.size == 0) continue;
    alignas(cache_line) unsigned char padded[bytes_of_group] = {}, codes[mx_group], bytes[mx_blocks];
    std::memcpy(padded, rest.source, rest.size * bytes_each<In>);
    some_nan |= mx_quantize_group<In, Out>(padded, codes, bytes, rule, largest);
    std::memcpy(rest.destination, codes, rest.size);
    std::memcpy(scales, bytes, (rest.size + mx_block - 1) / mx_block);
  }
  constexpr auto infinity = static_cast<typename In::bits_type>(In::largest_finite_bits + 1);
  add_largest<In>(found, some_nan ? infinity : largest_lane(largest));
}
