// Passes with streaming stores: the part of kernels.inl that chooses what is worth them.

/// From how many elements on a piece is worth streaming stores.
template <class Out>
inline constexpr std::size_t streamed_elements = least_streamed / sizeof(typename Out::bits_type);
/// Whether a piece of as many is. In place there is nothing to be gained.
template <class Out>
inline bool is_streamed(const Piece& piece) noexcept {
  return piece.source != piece.destination &&
         reinterpret_cast<std::uintptr_t>(piece.destination) % sizeof(typename Out::bits_type) == 0;
}
/// One piece with streaming stores, but for what lies before the first cache line, and after the last four registers.
template <Op op, class In, class Out>
inline void stream(const Piece& piece, double factor, Found& found) noexcept {
  constexpr std::size_t block = 4 * lanes_of<compute_of<op, In, Out>>;
  const std::size_t head =
      (0 - reinterpret_cast<std::uintptr_t>(piece.destination)) % cache_line / sizeof(typename Out::bits_type);
  const std::size_t streamed = (piece.size - head) / block * block, tail = head + streamed;
  const Piece aligned = part_of<In, Out>(piece, head, streamed);
  const Piece ends[] = {part_of<In, Out>(piece, 0, head), part_of<In, Out>(piece, tail, piece.size - tail)};
  (void)transform_below<op, In, Out, true>(~std::size_t{0}, &aligned, &aligned + 1, factor, found);
  transform<op, In, Out>(ends, ends + 2, factor, found);
}
/// Large pieces with streaming stores, those between them with ordinary ones.
template <Op op, class In, class Out>
inline void transform_streaming(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
  bool has_streamed = false;
  while (piece != last) {
    if (piece->size < streamed_elements<Out>) {
      piece = transform_below<op, In, Out>(streamed_elements<Out>, piece, last, factor, found);
    } else if (is_streamed<Out>(*piece)) {
      stream<op, In, Out>(*piece++, factor, found);
      has_streamed = true;
    } else {
      transform<op, In, Out>(piece, piece + 1, factor, found);
      ++piece;
    }
  }
  if (has_streamed) finish_streaming();
}
