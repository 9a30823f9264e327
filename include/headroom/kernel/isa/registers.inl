// Registers of `vector_bytes` bytes as vectors of the language (the vector_size of g++ and clang), and what becomes the same
// instructions in the language as by intrinsics. Included by each instruction set's file but the scalar one, inside its
// namespace and its target region, before what it says by itself. Before that it has
//
//   hidden(lanes)   the lanes themselves, a vector of any kind, but the compiler does not know where they come from. Under
//                   -ffast-math that would count as proof that they are not those of Inf or NaN, and the check of them would
//                   be folded away; sums would be added in another order, and products become parts of fused multiply-adds

typedef float f32_lanes __attribute__((vector_size(vector_bytes)));
typedef double f64_lanes __attribute__((vector_size(vector_bytes)));
typedef std::uint32_t u32_lanes __attribute__((vector_size(vector_bytes)));
typedef std::int32_t i32_lanes __attribute__((vector_size(vector_bytes)));
typedef std::uint16_t u16_lanes __attribute__((vector_size(vector_bytes)));
typedef std::int16_t i16_lanes __attribute__((vector_size(vector_bytes)));

// Structs, because a raw register loses its alignment attribute as a template argument.
struct f32s {
  f32_lanes lanes;
};
struct u32s {
  u32_lanes lanes;
};
struct u16s {
  u16_lanes lanes;
};
using u32_pair = RegisterPair<u32s, in_order>;
using f32_pair = RegisterPair<f32s, in_order>;

// ---- load and store: always unaligned, and always as integers, so that no compiler may think a NaN cannot be there ----

template <class Lanes>
inline Lanes loaded(const unsigned char* source) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, source, sizeof lanes);
  // Else g++ loads 64 bytes once for each use, and each time from two lines, unless the array is aligned to them.
  return sizeof lanes == cache_line ? hidden(lanes) : lanes;
}
template <std::size_t Lanes>
inline auto load(binary32, const unsigned char* source) noexcept {
  const u32s first = {loaded<u32_lanes>(source)};
  if constexpr (Lanes == vector_bytes / 4) {
    return first;
  } else {
    return u32_pair{first, {loaded<u32_lanes>(source + vector_bytes)}};
  }
}
template <class Bits>
inline void store(unsigned char* destination, Bits bits) noexcept {
  std::memcpy(destination, &bits.lanes, sizeof bits.lanes);
}
inline void store(unsigned char* destination, u32_pair bits) noexcept {  // not at once, for g++ would assemble it on the stack
  store(destination, bits.first);
  store(destination + vector_bytes, bits.second);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary32, u32s bits) noexcept {
  return {(f32_lanes)bits.lanes};
}
template <class Compute>
inline f32_pair widen(binary32, u32_pair bits) noexcept {
  return {{(f32_lanes)bits.first.lanes}, {(f32_lanes)bits.second.lanes}};
}
inline u32s narrow(binary32, f32s value) noexcept { return {hidden((u32_lanes)value.lanes)}; }
inline u32_pair narrow(binary32, f32_pair value) noexcept {
  return {narrow(binary32{}, value.first), narrow(binary32{}, value.second)};
}

// ---- arithmetic ----

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  const f32s all = {(f32_lanes)(u32_lanes{} + bit_cast<std::uint32_t>(static_cast<float>(factor)))};
  if constexpr (std::is_same_v<Compute, f32s>) {
    return all;
  } else {
    return {all, all};
  }
}
inline f32s multiplied(f32s value, f32s factor) noexcept { return {value.lanes * factor.lanes}; }
inline f32s plus(f32s value, f32s product) noexcept { return {hidden(value.lanes + hidden(product.lanes))}; }

// ---- the largest magnitude, in integers: the bits without the sign order as the values do, Inf and NaN on top; as signed
// integers, which more CPUs can compare, or with more units ----

template <class Lanes>
inline Lanes larger_lanes(Lanes a, Lanes b) noexcept {
  return a > b ? a : b;
}
inline u32s larger(u32s a, u32s b) noexcept { return {(u32_lanes)larger_lanes((i32_lanes)a.lanes, (i32_lanes)b.lanes)}; }
inline u16s larger(u16s a, u16s b) noexcept { return {(u16_lanes)larger_lanes((i16_lanes)a.lanes, (i16_lanes)b.lanes)}; }
inline u32_pair larger(u32_pair a, u32_pair b) noexcept { return {larger(a.first, b.first), larger(a.second, b.second)}; }
inline u32s magnitudes(u32s bits) noexcept { return {bits.lanes & binary32::abs_mask}; }
inline u16s magnitudes(u16s bits) noexcept { return {bits.lanes & binary16::abs_mask}; }
inline u32_pair magnitudes(u32_pair bits) noexcept { return {magnitudes(bits.first), magnitudes(bits.second)}; }

// ---- sixteen bits times a power of two, in integers ----

using sixteen_bits = u16s;
inline u16s all_sixteen(int value) noexcept { return {u16_lanes{} + static_cast<std::uint16_t>(value)}; }
inline u16s smaller(u16s a, u16s b) noexcept {
  const auto x = (i16_lanes)a.lanes, y = (i16_lanes)b.lanes;
  return {(u16_lanes)(x < y ? x : y)};
}
// Plus 0x7fff, magnitudes are in order from the most negative integer on, but for zero, which is the greatest.
inline u16s with_zero_last(u16s bits) noexcept { return {bits.lanes + 0x7fff}; }
