#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/ops/buffer.hpp>
#include <headroom/tree/layout.hpp>
#include <headroom/tree/overlap.hpp>

#include <cstddef>
#include <limits>

// A plan is what a verb has to do, once its trees have been walked and checked: for each leaf, in the order of the tree, a
// piece {source, destination, size}. Neighbouring pieces with the same pair of dtypes form a run, which a kernel takes in one
// call. A leaf with strides is also one piece, in a run of its own. Everything after the walk is a loop over the plan and knows
// no types.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What the pieces of a run have in common: the kernels that the verb may need, each by instruction set, and the bytes per
/// element.
struct PieceKind {
  const Kernel* const* kernels;
  std::size_t source_bytes, destination_bytes;
};

/// The ops of a verb; it names one of them by its place in this list.
template <Op... ops>
struct Ops {
  template <class In, class Out>
  static constexpr const Kernel* list[] = {kernels<ops, In, Out>...};
  template <class In, class Out>
  static constexpr PieceKind kind = {list<In, Out>, sizeof(typename In::bits_type), sizeof(typename Out::bits_type)};
};

/// The same, but what is stored saturates.
template <Op... ops>
struct SaturatingOps {
  template <class In, class Out>
  static constexpr PieceKind kind = Ops<ops...>::template kind<In, saturating<Out>>;
};

class Plan {
 public:
  struct Run {
    const PieceKind* kind;
    std::size_t end;    // behind its last piece
    std::size_t first;  // of its dimensions
    int depth;          // 0: elements lie side by side
  };

  /// A leaf that is read (the destination is null), or worked on in place.
  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    add_piece({source, destination, size}, kind);
    bytes_ += size * kind.source_bytes;
  }
  void add(const void* source, void* destination, const Layout& layout, const PieceKind& kind) {
    add_strided({source, destination, static_cast<std::size_t>(layout.size())}, LoopNest(layout, layout), kind);
    bytes_ += static_cast<std::size_t>(layout.size()) * kind.source_bytes;
  }
  /// A leaf that goes into another.
  void add_into(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    add_piece({source, destination, size}, kind);
    bytes_ += size * (kind.source_bytes + kind.destination_bytes);
  }
  void add_into(const void* source, void* destination, const LoopNest& nest, std::size_t size, const PieceKind& kind) {
    add_strided({source, destination, size}, nest, kind);
    bytes_ += size * (kind.source_bytes + kind.destination_bytes);
  }

  /// Everything that is read or written.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const Buffer<Piece, 32>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] const Buffer<Run, 4>& runs() const noexcept { return runs_; }
  [[nodiscard]] const Dimension* dimensions(const Run& run) const noexcept { return dimensions_.begin() + run.first; }

 private:
  void add_piece(const Piece& piece, const PieceKind& kind) {
    pieces_.push_back(piece);
    if (runs_.empty() || runs_.back().kind != &kind || runs_.back().depth != 0) runs_.push_back({&kind, 0, 0, 0});
    runs_.back().end = pieces_.size();
  }
  void add_strided(const Piece& piece, const LoopNest& nest, const PieceKind& kind) {
    if (nest.is_contiguous() || piece.size == 0) return add_piece(piece, kind);
    pieces_.push_back(piece);
    runs_.push_back({&kind, pieces_.size(), dimensions_.size(), nest.depth});
    for (int i = 0; i < nest.depth; ++i) dimensions_.push_back(nest.dimensions[i]);
  }

  Buffer<Piece, 32> pieces_;
  Buffer<Run, 4> runs_;
  Buffer<Dimension, 4> dimensions_;
  std::size_t bytes_ = 0;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
