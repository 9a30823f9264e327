#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/ops/buffer.hpp>
#include <headroom/tree/layout.hpp>
#include <headroom/tree/overlap.hpp>

#include <cstddef>

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
  static constexpr std::size_t streaming = 0;  // how far behind an op its streaming counterpart is, if it has one
  template <class In, class Out>
  static constexpr const Kernel* list[] = {kernels<ops, In, Out>...};
  template <class In, class Out>
  static constexpr PieceKind kind = {list<In, Out>, sizeof(typename In::bits_type), sizeof(typename Out::bits_type)};
};

/// The same, but what is stored saturates.
template <class VerbOps>
struct Saturating {
  static constexpr std::size_t streaming = VerbOps::streaming;
  template <class In, class Out>
  static constexpr PieceKind kind = VerbOps::template kind<In, saturating<Out>>;
};
/// The same, with their streaming counterparts behind them.
template <class VerbOps>
struct Streaming;
template <Op... ops>
struct Streaming<Ops<ops...>> : Ops<ops..., streaming_form(ops)...> {
  static constexpr std::size_t streaming = sizeof...(ops);
};
template <class VerbOps>
struct Streaming<Saturating<VerbOps>> : Saturating<Streaming<VerbOps>> {};

class Plan {
 public:
  class Writer;
  struct Run {
    const PieceKind* kind;
    std::size_t begin;  // its first piece
    std::size_t first;  // of its dimensions
    int depth;          // 0: elements lie side by side
  };

  /// All that is read or written; of a leaf in place once.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] static std::size_t bytes_each(const Run& run, const Piece& piece) noexcept {
    const bool is_one = stays(piece.source, piece.destination);
    return is_one ? run.kind->source_bytes : run.kind->source_bytes + run.kind->destination_bytes;
  }
  [[nodiscard]] std::size_t elements() const noexcept {
    std::size_t sum = 0;
    for (const Piece& piece : pieces_) sum += piece.size;
    return sum;
  }
  /// Whether a leaf is only read, or worked on in place.
  [[nodiscard]] static bool stays(const void* source, const void* destination) noexcept {
    return destination == nullptr || source == destination;
  }
  [[nodiscard]] const Buffer<Piece, 32>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] const Buffer<Run, 4>& runs() const noexcept { return runs_; }
  /// The number of a leaf.
  [[nodiscard]] std::size_t place_of(const Piece& piece) const noexcept {
    return static_cast<std::size_t>(&piece - pieces_.begin());
  }
  [[nodiscard]] const Piece* begin(const Run& run) const noexcept { return pieces_.begin() + run.begin; }
  [[nodiscard]] const Piece* end(const Run& run) const noexcept {
    return &run + 1 == runs_.end() ? pieces_.end() : pieces_.begin() + (&run)[1].begin;
  }
  [[nodiscard]] const Dimension* dimensions(const Run& run) const noexcept { return dimensions_.begin() + run.first; }

 private:
  [[nodiscard]] bool ends_with(const PieceKind& kind) const noexcept {
    return runs_.size() != 0 && runs_.end()[-1].kind == &kind && runs_.end()[-1].depth == 0;
  }

  Buffer<Piece, 32> pieces_;
  Buffer<Run, 4> runs_;
  Buffer<Dimension, 4> dimensions_;
  std::size_t bytes_ = 0;
};

/// Adds the leaves of a walk to a plan, which has them when the writer is closed. What is at hand for each leaf is in the
/// writer, and can stay in registers; of a plan it is in memory, because the plan owns the list.
class Plan::Writer {
 public:
  explicit Writer(Plan& plan) noexcept : plan_(plan) {}

  /// A leaf: read (the destination is null), worked on in place, or going into another.
  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    if (kind_ != &kind || at_ == limit_) open(kind, 0);
    ::new (static_cast<void*>(at_++)) Piece{source, destination, size};
    elements_ += size;
    if (!stays(source, destination)) into_another_ += size;
  }
  /// One with strides.
  void add(const void* source, void* destination, std::size_t size, const LoopNest& nest, const PieceKind& kind) {
    if (nest.is_contiguous() || size == 0) return add(source, destination, size, kind);
    open(kind, nest.depth);
    add(source, destination, size, kind);
    close();
    for (int i = 0; i < nest.depth; ++i) plan_.dimensions_.push_back(nest.dimensions[i]);
  }
  void close() noexcept {
    if (kind_ != nullptr) {
      plan_.pieces_.end_at(at_);
      plan_.bytes_ += elements_ * kind_->source_bytes + into_another_ * kind_->destination_bytes;
    }
    elements_ = into_another_ = 0;
    kind_ = nullptr;
    limit_ = at_;
  }

 private:
  /// Inlined, or the writer would be in memory for its sake: another nanosecond a leaf.
  [[gnu::always_inline]] void open(const PieceKind& kind, int depth) {
    close();
    if (depth != 0 || !plan_.ends_with(kind))
      plan_.runs_.push_back({&kind, plan_.pieces_.size(), plan_.dimensions_.size(), depth});
    plan_.pieces_.make_room();
    at_ = plan_.pieces_.end();
    limit_ = plan_.pieces_.limit();
    kind_ = &kind;
  }

  Plan& plan_;
  Piece *at_ = nullptr, *limit_ = nullptr;
  const PieceKind* kind_ = nullptr;              // of the run that is being written; null: none
  std::size_t elements_ = 0, into_another_ = 0;  // of its pieces; of those that do not stay in place
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
