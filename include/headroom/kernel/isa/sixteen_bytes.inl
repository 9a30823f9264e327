// What instruction sets with registers of 16 bytes share. Their files include it after
// registers.inl.

template <std::size_t Lanes, class Format>
inline auto load_part(Format, const unsigned char* source, std::size_t n) noexcept {
  unsigned char padded[Lanes * sizeof(typename Format::bits_type)] = {};
  std::memcpy(padded, source, n * sizeof(typename Format::bits_type));
  return load<Lanes>(Format{}, padded);
}
template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  std::memcpy(destination, &bits.lanes, n * sizeof bits.lanes[0]);
}

inline u16_half upper_halves(u32_lanes bits) noexcept {
  return {__builtin_convertvector(bits >> 16, u16_half_lanes)};
}
inline u16_lanes by_turns(u32_lanes lower_halves, u32_lanes upper_ones) noexcept {
  return u16_lanes((lower_halves & 0xffff) | (upper_ones & 0xffff0000));
}
inline u16_half_lanes sign_extended(u8_quarter bytes) noexcept {
  return u16_half_lanes(__builtin_convertvector(i8_quarter_lanes(bytes.lanes), i16_half_lanes));
}
inline bool any(u32_lanes mask) noexcept {
  const auto halves = u64_lanes(mask);
  return (halves[0] | halves[1]) != 0;
}
inline bool any_above(u32s magnitudes, std::uint32_t limit) noexcept {
  return any(u32_lanes(i32_lanes(magnitudes.lanes) > i32_lanes(u32_lanes{} + limit)));
}
inline bool any_above(u16s magnitudes, std::uint16_t limit) noexcept {
  return any(u32_lanes(i16_lanes(magnitudes.lanes) > i16_lanes(u16_lanes{} + limit)));
}
inline even_odd_f64s to_doubles(f32_pair<Order::even_odd> value) noexcept {
  return {to_doubles(value.first), to_doubles(value.second)};
}
