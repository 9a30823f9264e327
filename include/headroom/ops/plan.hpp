#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/tree/any_tensor.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/layout.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

// A plan lists the work of a verb: for each leaf, in the order of the tree, a piece {source, destination, size}. A verb makes
// one walk, which checks every leaf and makes the plan. If it throws, nothing has been written. Adjacent pieces with the same
// pair of dtypes form a run. A kernel call takes a run, or a group of it. A strided leaf is one piece in a run of its own.
// Everything after the walk is a loop over the plan and knows no types.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

// ---- lists ----

/// A list of trivially copyable elements. The object itself has room for `Few`. More go into a block of memory.
template <class T, std::size_t Few>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  Buffer() noexcept : begin_(reinterpret_cast<T*>(few_)), end_(begin_), limit_(begin_ + Few) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (block_ != nullptr) give_back(block_);
  }

  void push_back(const T& value) {
    make_room();
    ::new (static_cast<void*>(end_++)) T(value);
  }
  /// Makes room for at least one element from end() to limit(). Write elements there, then call end_at().
  void make_room() {
    if (end_ == limit_) grow();
  }
  [[nodiscard]] T* limit() noexcept { return limit_; }
  void end_at(T* end) noexcept { end_ = end; }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - begin_); }
  [[nodiscard]] T* begin() const noexcept { return begin_; }
  [[nodiscard]] T* end() const noexcept { return end_; }

 private:
  struct alignas(std::max_align_t) Block {
    std::size_t bytes;  // of the elements that follow
  };

  [[gnu::cold, gnu::noinline]] void grow() {
    const std::size_t count = size(), bytes = 2 * count * sizeof(T);
    Block* larger = spare_.exchange(nullptr, std::memory_order_acquire);
    if (larger == nullptr || larger->bytes < bytes) {
      ::operator delete(larger);
      larger = ::new (::operator new(sizeof(Block) + bytes)) Block{bytes};
    }
    T* const elements = reinterpret_cast<T*>(larger + 1);
    std::memcpy(static_cast<void*>(elements), begin_, count * sizeof(T));
    if (block_ != nullptr) ::operator delete(block_);
    block_ = larger;
    begin_ = elements;
    end_ = elements + count;
    limit_ = elements + larger->bytes / sizeof(T);
  }
  /// Static, because passing `this` costs each leaf of an in-place walk half a nanosecond.
  [[gnu::cold, gnu::noinline]] static void give_back(Block* block) noexcept {
    ::operator delete(spare_.exchange(block, std::memory_order_acq_rel));
  }

  /// The block of the last destroyed list. The next list that grows takes it, so repeated calls of a verb allocate nothing.
  static inline std::atomic<Block*> spare_{nullptr};

  T *begin_, *end_, *limit_;
  Block* block_ = nullptr;
  alignas(T) unsigned char few_[Few * sizeof(T)];
};

// ---- what a verb does ----

/// What the pieces of a run share: the kernels that the verb may need, each by instruction set, and the bytes per element.
struct PieceKind {
  const Kernel* const* kernels;
  std::size_t source_bytes, destination_bytes;
  bool may_sum = false;  ///< whether one of them sums squares
};

/// The ops of a verb. A Pass has the index of one of them.
template <Op... ops>
struct Ops {
  template <class In, class Out>
  static constexpr const Kernel* list[] = {kernels<ops, In, Out>...};
  template <class In, class Out>
  static constexpr PieceKind kind = {list<In, Out>, bytes_each<In>, bytes_each<Out>, ((ops == Op::measure) || ...)};
};

// ---- the plan ----

class Plan {
 public:
  class Writer;
  struct Run {
    const PieceKind* kind;
    std::size_t begin;  // index of its first piece
    std::size_t first;  // index of its first dimension
    std::size_t elements;
    int depth;  // of its loop nest; 0 for contiguous leaves
  };

  [[nodiscard]] const Buffer<Piece, 32>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] const Buffer<Run, 4>& runs() const noexcept { return runs_; }
  [[nodiscard]] const Piece* begin(const Run& run) const noexcept { return pieces_.begin() + run.begin; }
  [[nodiscard]] const Piece* end(const Run& run) const noexcept {
    return &run + 1 == runs_.end() ? pieces_.end() : pieces_.begin() + (&run)[1].begin;
  }
  [[nodiscard]] const Dimension* dimensions(const Run& run) const noexcept { return dimensions_.begin() + run.first; }
  /// The index of a leaf in the order of the tree.
  [[nodiscard]] std::size_t place_of(const Piece& piece) const noexcept {
    return static_cast<std::size_t>(&piece - pieces_.begin());
  }
  /// Address of the first element; null if no leaf has any.
  [[nodiscard]] const void* first_element() const noexcept {
    for (const Piece& piece : pieces_) {
      if (piece.size != 0) return piece.source;
    }
    return nullptr;
  }
  [[nodiscard]] std::size_t elements() const noexcept {
    std::size_t sum = 0;
    for (const Run& run : runs_) sum += run.elements;
    return sum;
  }
  /// Bytes read and written by a pass from one tree into another.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const Run& run : runs_) sum += run.elements * (run.kind->source_bytes + run.kind->destination_bytes);
    return sum;
  }

 private:
  Buffer<Piece, 32> pieces_;
  Buffer<Run, 4> runs_;
  Buffer<Dimension, 4> dimensions_;
};

/// Adds the leaves of a walk to a plan, which is complete after close(). Members that change with each leaf stay in registers.
class Plan::Writer {
 public:
  explicit Writer(Plan& plan) noexcept : plan_(plan) {}

  /// Adds a contiguous leaf. The destination is null if the leaf is only read.
  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    if (kind_ != &kind || at_ == limit_) open(kind, 0);
    ::new (static_cast<void*>(at_++)) Piece{source, destination, size};
    elements_ += size;
  }
  /// Adds a leaf with strides.
  void add(const void* source, void* destination, std::size_t size, const LoopNest& nest, const PieceKind& kind) {
    if (nest.is_contiguous() || size == 0) return add(source, destination, size, kind);
    open(kind, nest.depth);
    add(source, destination, size, kind);
    close();
    for (int i = 0; i < nest.depth; ++i) plan_.dimensions_.push_back(nest.dimensions[i]);
  }
  void close() noexcept {
    if (kind_ == nullptr) return;
    plan_.pieces_.end_at(at_);
    plan_.runs_.end()[-1].elements += elements_;
    elements_ = 0;
    kind_ = nullptr;
  }

 private:
  /// Inlined, because a call would keep the writer in memory, which costs each leaf another nanosecond.
  [[gnu::always_inline]] void open(const PieceKind& kind, int depth) {
    close();
    const Run* const last = plan_.runs_.size() == 0 ? nullptr : plan_.runs_.end() - 1;
    if (depth != 0 || last == nullptr || last->kind != &kind || last->depth != 0)
      plan_.runs_.push_back({&kind, plan_.pieces_.size(), plan_.dimensions_.size(), 0, depth});
    plan_.pieces_.make_room();
    at_ = plan_.pieces_.end();
    limit_ = plan_.pieces_.limit();
    kind_ = &kind;
  }

  Plan& plan_;
  Piece *at_ = nullptr, *limit_ = nullptr;
  const PieceKind* kind_ = nullptr;  // of the open run; null if none is open
  std::size_t elements_ = 0;         // added since it was opened
};

// ---- what can be wrong with a leaf ----

/// Names the leaf: "the source", "the source's [2]". If there is only one tree: "the tree", "[2]".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_leaf(const Path& path, const char* which,
                                                                  std::initializer_list<std::string_view> what) {
  const bool is_only_tree = *which == '\0';
  const std::string name = is_only_tree ? path.name() : path.text();
  throw_invalid_argument({which, is_only_tree || name.empty() ? "" : "'s ", name, " ", concat(what)});
}

template <class T>
using obstacle_t = decltype(tensor_traits<T>::obstacle(std::declval<const T&>()));
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_null_leaf(const Path& path, const char* which, std::size_t size) {
  throw_bad_leaf(path, which, {"is null, with a size of ", std::to_string(size)});
}
/// Returns the number of elements.
[[nodiscard, gnu::always_inline]] inline std::size_t check_walkable(const Path& path, const char* which,
                                                                    const any_tensor& tensor, bool writes) {
  const char* const obstacle = obstacle_of(tensor);
  if (obstacle != nullptr) throw_bad_leaf(path, which, {obstacle, ": ", description_of(tensor)});
  if (writes && tensor.is_read_only) throw_bad_leaf(path, which, {"is read-only"});
  const std::size_t size = detail::size_of(tensor);
  if (size != 0 && tensor.data == nullptr) throw_null_leaf(path, which, size);
  return size;
}
/// Must be called before the layout of the leaf is asked for.
template <class Leaf>
void check_walkable(const Path& path, const char* which, [[maybe_unused]] const Leaf& leaf, const void* data, std::size_t size,
                    [[maybe_unused]] bool writes) {
  if constexpr (std::is_base_of_v<any_tensor, Leaf>) {
    (void)check_walkable(path, which, leaf, writes);
  } else if constexpr (is_detected_v<obstacle_t, Leaf>) {
    const char* const obstacle = tensor_traits<Leaf>::obstacle(leaf);
    if (obstacle != nullptr) throw_bad_leaf(path, which, {obstacle});
  }
  if (size != 0 && data == nullptr) throw_null_leaf(path, which, size);
}

template <class Leaf>
[[nodiscard]] Layout checked_layout_of(const Path& path, const char* which, const Leaf& leaf) {
  const Layout layout = detail::layout_of(leaf);
  if (layout.excess() != 0) {
    throw_bad_leaf(path, which,
                   {"has ", std::to_string(layout.rank() + layout.excess()),
                    " dimensions, not counting those of one element; there may be ", std::to_string(Layout::max_rank)});
  }
  return layout;
}
inline void check_distinct_elements(const Path& path, const char* which, std::size_t size, const LoopNest& nest) {
  if (size == 0 || !nest.repeats_elements()) return;
  throw_bad_leaf(path, which, {"repeats elements: its strides lead to some more than once. Copy it into a dense tensor first"});
}
template <class Element>
constexpr bool check_is_writable() {
  static_assert(!std::is_const_v<Element>, "headroom: this verb writes into the tree, and a leaf of it is const");
  return !std::is_const_v<Element>;
}

/// The loop nest of two leaves. Their shapes are the same; or one is flat, both have no gaps, and their sizes are the same.
inline LoopNest common_nest(const Path& path, const Layout& source, const Layout& destination) {
  const LoopNest nest(destination, destination);
  const std::ptrdiff_t size = destination.size();
  check_distinct_elements(path, "the destination", static_cast<std::size_t>(size), nest);
  if (size != 0 && source.same_shape(destination)) return {source, destination};
  const bool dense =
      (source.rank() <= 1 || destination.rank() <= 1) && LoopNest(source, source).is_contiguous() && nest.is_contiguous();
  if (source.size() != size || (size != 0 && !dense)) {
    throw_structure_differs(path, {"the source is ", source.shape_text(), ", the destination is ", destination.shape_text()});
  }
  return {Layout(), Layout()};
}

template <class A, class B>
using same_structure_t = decltype(tensor_traits<A>::same_structure(std::declval<const A&>(), std::declval<const B&>()));
template <class Source, class Destination>
void check_same_structure(const Path& path, const Source& source, const Destination& destination) {
  bool same = true;
  if constexpr (is_detected_v<same_structure_t, Source, Destination>) {
    same = tensor_traits<Source>::same_structure(source, destination);
  } else if constexpr (is_detected_v<same_structure_t, Destination, Source>) {
    same = tensor_traits<Destination>::same_structure(destination, source);
  }
  if (!same) throw_structure_differs(path, {"source and destination have their elements in different places"});
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_overlap(const Path& path) {
  throw_invalid_argument(
      {path.name(),
       ": source and destination overlap, so elements of the source would be overwritten (a verb that returns "
       "a new tree copies structs, and a copied pointer still leads to the source)"});
}
/// Throws if a leaf overlaps its destination. It may be its own destination if its elements keep their size and places, but not
/// in a new tree: there children() of a struct reached through a pointer, so its copy shares the source's elements. Of a leaf
/// with gaps (`nest`) only the first elements are compared, because parts of one matrix may interleave without overlapping.
inline void check_apart(const Path& path, const void* source, const void* destination, std::size_t size, const PieceKind& kind,
                        bool is_new, const LoopNest* nest = nullptr) {
  const auto from = reinterpret_cast<std::uintptr_t>(source), to = reinterpret_cast<std::uintptr_t>(destination);
  bool meets = from < to + size * kind.destination_bytes && to < from + size * kind.source_bytes;
  bool stays = !is_new && from == to && kind.source_bytes == kind.destination_bytes;
  if (nest != nullptr && !nest->is_contiguous()) {
    meets = from == to;
    for (int i = 0; i < nest->depth; ++i)
      stays = stays && nest->dimensions[i].source_stride == nest->dimensions[i].destination_stride;
  }
  if (meets && !stays) throw_overlap(path);
}

// ---- the walk ----

/// How a verb accesses its tree or trees.
enum class Access {
  read,
  read_by_offset,  ///< no leaf may repeat elements
  in_place,
  into,     ///< from one tree into another
  into_new  ///< the same, into a new tree that the verb makes
};

template <class VerbOps>
inline constexpr bool writes_only_fp8 = false;
template <Op... ops>
inline constexpr bool writes_only_fp8<Ops<ops...>> = (quantizes(ops) || ...);

/// The kinds of pieces by the dtype indexes of source and destination; null if the verb cannot write the destination's dtype.
template <class VerbOps, class Dtypes = any_dtypes>
struct AnyKinds;
template <class VerbOps, class... Ts>
struct AnyKinds<VerbOps, types<Ts...>> {
  template <class From, class To>
  static constexpr const PieceKind* find() {
    if constexpr (writes_only_fp8<VerbOps> && !is_fp8<To>) {
      return nullptr;
    } else {
      return &VerbOps::template kind<From, To>;
    }
  }
  template <class From>
  static constexpr const PieceKind* from[] = {find<format_of<From>, format_of<Ts>>()...};
  static constexpr const PieceKind* const* pair[] = {from<Ts>...};
  static constexpr const PieceKind* same[] = {find<format_of<Ts>, format_of<Ts>>()...};
};

/// Checks the leaves of one tree or two and adds them to `plan`, a Plan::Writer or a LonePiece.
template <class VerbOps, Access access, class Pieces>
struct PlanLeaves {
  Pieces& plan;

  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    auto* const data = detail::data_of(leaf);
    using Element = std::remove_pointer_t<decltype(data)>;
    const std::size_t size = detail::size_of(leaf);
    detail::check_walkable(path, "", leaf, data, size, access == Access::in_place);
    void* destination = nullptr;
    if constexpr (access == Access::in_place) {
      if constexpr (check_is_writable<Element>()) destination = data;
    }
    constexpr auto& kind = VerbOps::template kind<format_of<Element>, format_of<Element>>;
    if constexpr (has_layout_v<std::remove_const_t<Leaf>>) {
      add_strided(path, leaf, data, destination, size, kind);
    } else {
      plan.add(data, destination, size, kind);
    }
  }

  template <class From, class To>
  void operator()(const Path& path, From& source, To& destination) const {
    auto* const from = detail::data_of(source);
    auto* const to = detail::data_of(destination);
    using Element = std::remove_pointer_t<decltype(to)>;
    const std::size_t size = detail::size_of(source), size_there = detail::size_of(destination);
    detail::check_walkable(path, source_name, source, from, size, false);
    detail::check_walkable(path, "the destination", destination, to, size_there, true);
    if constexpr (check_is_writable<Element>()) {
      constexpr auto& kind = VerbOps::template kind<format_of<std::remove_pointer_t<decltype(from)>>, format_of<Element>>;
      if constexpr (has_layout_v<std::remove_const_t<From>> || has_layout_v<std::remove_const_t<To>>) {
        add_strided_pair(path, source, destination, from, to, size_there, kind);
      } else {
        add_pair(path, from, to, size, size_there, kind);
      }
      detail::check_same_structure<std::remove_const_t<From>, std::remove_const_t<To>>(path, source, destination);
    }
  }

  // Take any_tensors directly: one instantiation, not one for each pair of dtypes.

  void visit_dynamic(const Path& path, const any_tensor& tensor) const {
    const int dtype = dtype_index(tensor.dtype);
    if (dtype == -1) return;
    const std::size_t size = check_walkable(path, "", tensor, access == Access::in_place);
    const PieceKind& kind = *AnyKinds<VerbOps>::same[dtype];
    void* const destination = access == Access::in_place ? tensor.data : nullptr;
    if (is_dense(tensor)) return plan.add(tensor.data, destination, size, kind);
    add_strided_any(path, tensor, size, kind);
  }
  void visit_dynamic(const Path& path, const any_tensor& source, const any_tensor& destination) const {
    const int from = dtype_index(source.dtype), to = dtype_index(destination.dtype);
    if ((from == -1) != (to == -1)) throw_structure_differs(path, {"a floating-point tensor faces something else"});
    if (from == -1) return;
    const std::size_t size = check_walkable(path, source_name, source, false);
    const std::size_t size_there = check_walkable(path, "the destination", destination, true);
    const PieceKind* const kind = AnyKinds<VerbOps>::pair[from][to];
    if (kind == nullptr) throw_bad_leaf(path, "the destination", {"has a dtype that this verb does not write"});
    if (is_dense(source) && is_dense(destination) && same_shape(source, destination)) {
      add_pair(path, source.data, destination.data, size, size_there, *kind);
    } else {
      add_strided_any(path, source, destination, *kind);
    }
  }

 private:
  static constexpr const char* source_name = access == Access::into_new ? "" : "the source";

  void add_pair(const Path& path, const void* from, void* to, std::size_t size, std::size_t size_there,
                const PieceKind& kind) const {
    if (size != size_there) throw_sizes_differ(path, size, size_there);
    check_apart(path, from, to, size, kind, access == Access::into_new);
    plan.add(from, to, size, kind);
  }
  template <class Leaf>
  [[gnu::always_inline]] void add_strided(const Path& path, const Leaf& leaf, const void* data, void* destination,
                                          std::size_t size, const PieceKind& kind) const {
    const Layout layout = detail::checked_layout_of(path, "", leaf);
    const LoopNest nest(layout, layout);
    if (access != Access::read) check_distinct_elements(path, "", size, nest);
    plan.add(data, destination, size, nest, kind);
  }
  template <class From, class To>
  [[gnu::always_inline]] void add_strided_pair(const Path& path, const From& source, const To& destination, const void* from,
                                               void* to, std::size_t size, const PieceKind& kind) const {
    const LoopNest nest = common_nest(path, detail::checked_layout_of(path, source_name, source),
                                      detail::checked_layout_of(path, "the destination", destination));
    check_apart(path, from, to, size, kind, access == Access::into_new, &nest);
    plan.add(from, to, size, nest, kind);
  }
  // Out of line, so that the stack frame of a walk over dense tensors is small.
  [[gnu::noinline]] void add_strided_any(const Path& path, const any_tensor& tensor, std::size_t size,
                                         const PieceKind& kind) const {
    add_strided(path, tensor, tensor.data, access == Access::in_place ? tensor.data : nullptr, size, kind);
  }
  [[gnu::noinline]] void add_strided_any(const Path& path, const any_tensor& source, const any_tensor& destination,
                                         const PieceKind& kind) const {
    add_strided_pair(path, source, destination, source.data, destination.data, detail::size_of(destination), kind);
  }
};

/// The path of a leaf by its index in the plan.
template <class Tree>
[[nodiscard]] std::string path_of(const Tree& tree, std::size_t leaf) {
  std::string text;
  const auto visit = [&](const Path& path, const auto&) {
    if (leaf-- == 0) text = path.text();
  };
  detail::walk(root, visit, tree);
  return text;
}

/// Throws if two leaves start at the same address, because in place their elements would be changed twice.
template <class Tree>
void check_listed_once(const Plan& plan, const Tree& tree) {
  Buffer<std::uintptr_t, 64> starts;
  for (const Piece& piece : plan.pieces()) {
    if (piece.size != 0) starts.push_back(reinterpret_cast<std::uintptr_t>(piece.destination));
  }
  if (!std::is_sorted(starts.begin(), starts.end())) std::sort(starts.begin(), starts.end());
  const std::uintptr_t* const twice = std::adjacent_find(starts.begin(), starts.end());
  if (twice == starts.end()) return;
  std::string paths;
  for (const Piece& piece : plan.pieces()) {
    if (reinterpret_cast<std::uintptr_t>(piece.destination) != *twice || piece.size == 0) continue;
    paths += (paths.empty() ? "" : " and ") + detail::path_of(tree, plan.place_of(piece));
  }
  throw_invalid_argument({paths, " share elements, which would be worked on twice: leave one of them out of the tree"});
}

template <class VerbOps, Access access, class Pieces, class... Trees>
void walk_trees(Pieces& pieces, Trees&... trees) {
  const PlanLeaves<VerbOps, access, Pieces> visit{pieces};
  if constexpr ((check_has_floats<bare<Trees>>() && ...)) detail::walk(root, visit, trees...);
}
template <class VerbOps, Access access, class... Trees>
void make_plan(Plan& plan, Trees&... trees) {
  Plan::Writer writer(plan);
  detail::walk_trees<VerbOps, access>(writer, trees...);
  writer.close();
  if constexpr (access == Access::in_place && !(owns_elements_v<Trees> && ...)) detail::check_listed_once(plan, trees...);
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
