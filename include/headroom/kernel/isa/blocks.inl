// The elements that scale_blocks processes at once: four registers with a factor each, so that they
// may be several blocks. Part of registers.inl.

inline constexpr std::size_t block_lanes = 2 * lanes_of<block_pair>;
inline f32s broadcast_float(float factor) noexcept {
  return broadcast<f32s>(static_cast<double>(factor));
}
/// x86 has an overload that extends signs from memory.
template <class In, class Words>
inline Words load_words(In, const unsigned char* source, Words) noexcept {
  return {sign_extended(loaded<u8_half_lanes>(source))};
}
template <class In>
inline block_pair load_pair(const unsigned char* source) noexcept {
  constexpr std::size_t width = lanes_of<f32s>;
  if constexpr (is_code<In>) {
    u16s codes;
    if constexpr (is_packed<In>) {
      const auto bytes = __builtin_convertvector(loaded<u8_quarter_lanes>(source), u16_half_lanes);
      codes.lanes = sign_extended(u8_half_lanes((bytes | bytes << 4) & 0x0f0f));
    } else {
      codes = load_words(In{}, source, u16s{});
    }
    const u16_lanes bits = as_fp16<In>(codes.lanes);
    u16_half halves[2];
    std::memcpy(halves, &bits, sizeof bits);
    return {from_fp16<In>(halves[0]), from_fp16<In>(halves[1])};
  } else {
    return {load_wide(In{}, source, f32s{}),
            load_wide(In{}, source + width * bytes_each<In>, f32s{})};
  }
}
template <class Out>
inline void store_pair(unsigned char* destination, block_pair value) noexcept {
  // NaNs have a zero lower half, as codes and factors do
  if constexpr (std::is_same_v<Out, brain16>) {
    const u32s a = narrow(binary32{}, value.first), b = narrow(binary32{}, value.second);
    store(destination, rounded_upper_halves(a.lanes, b.lanes));
  } else {
    store(destination, narrow(Out{}, value.first));
    store(destination + lanes_of<f32s> * bytes_each<Out>, narrow(Out{}, value.second));
  }
}
template <class In, class Out, bool divides>
inline void scale_register(const unsigned char* source, unsigned char* destination,
                           const float* factors, std::size_t blocks) noexcept {
  const block_pair of_x{broadcast_float(factors[0]), broadcast_float(factors[blocks / 4])};
  const block_pair of_y{broadcast_float(factors[blocks / 2]),
                        broadcast_float(factors[blocks * 3 / 4])};
  constexpr std::size_t in = bytes_of<In>(lanes_of<block_pair>),
                        out = bytes_of<Out>(lanes_of<block_pair>);
  if constexpr (has_tables && is_packed<In> && std::is_same_v<Out, brain16>) {
    look_up<In>(source, destination, of_x.first, block_lanes == 32 ? of_y.first : of_x.second);
    if (block_lanes > 32) look_up<In>(source + in, destination + out, of_y.first, of_y.second);
  } else {
    const block_pair x = load_pair<In>(source), y = load_pair<In>(source + in);
    const block_pair first = divides ? divided(x, of_x) : multiplied(x, of_x);
    const block_pair second = divides ? divided(y, of_y) : multiplied(y, of_y);
    if constexpr (!is_code<Out>) {
      store_pair<Out>(destination, first);
      store_pair<Out>(destination + out, second);
    } else {
      const u8s codes =
          low_bytes(codes_of<Out>(first.first, x.first), codes_of<Out>(first.second, x.second),
                    codes_of<Out>(second.first, y.first), codes_of<Out>(second.second, y.second));
      const auto pairs = u16_lanes(codes.lanes);
      if constexpr (!is_packed<Out>) store(destination, codes);
      if constexpr (is_packed<Out>) {
        const auto packed = __builtin_convertvector((pairs | pairs >> 4) & 0xff, u8_half_lanes);
        std::memcpy(destination, &packed, sizeof packed);
      }
    }
  }
}
