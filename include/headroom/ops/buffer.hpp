#pragma once

#include <headroom/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What the memory of a list begins with.
struct alignas(std::max_align_t) BlockHead {
  std::size_t bytes;  ///< behind the head
};
/// Blocks that lists have given back, for the next ones that grow: verbs that are called again and again allocate nothing.
inline std::atomic<BlockHead*> spare_blocks[4]{};

[[nodiscard]] inline BlockHead* take_block(std::size_t bytes) {
  for (auto& spare : spare_blocks) {
    BlockHead* const block = spare.exchange(nullptr, std::memory_order_acquire);
    if (block == nullptr) continue;
    if (block->bytes >= bytes) return block;
    ::operator delete(block);
  }
  return ::new (::operator new(sizeof(BlockHead) + bytes)) BlockHead{bytes};
}
[[gnu::cold, gnu::noinline]] inline void give_back(BlockHead* block) noexcept {
  for (auto& spare : spare_blocks) {
    BlockHead* none = nullptr;
    if (spare.compare_exchange_strong(none, block, std::memory_order_release, std::memory_order_relaxed)) return;
  }
  ::operator delete(block);
}

/// A list of trivial elements, of which the first `Few` lie in the object itself.
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
  /// From end() to limit() there is room, for one element at least, to be written before end_at() says where they end.
  void make_room() {
    if (end_ == limit_) grow();
  }
  [[nodiscard]] T* limit() noexcept { return limit_; }
  void end_at(T* end) noexcept { end_ = end; }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - begin_); }
  [[nodiscard]] T* begin() noexcept { return begin_; }
  [[nodiscard]] T* end() noexcept { return end_; }
  [[nodiscard]] const T* begin() const noexcept { return begin_; }
  [[nodiscard]] const T* end() const noexcept { return end_; }

 private:
  [[gnu::cold, gnu::noinline]] void grow() {
    const std::size_t count = size();
    BlockHead* const larger = take_block(2 * count * sizeof(T));
    T* const elements = reinterpret_cast<T*>(larger + 1);
    std::memcpy(static_cast<void*>(elements), begin_, count * sizeof(T));
    if (block_ != nullptr) ::operator delete(block_);
    block_ = larger;
    begin_ = elements;
    end_ = elements + count;
    limit_ = elements + larger->bytes / sizeof(T);
  }

  T *begin_, *end_, *limit_;
  BlockHead* block_ = nullptr;
  alignas(T) unsigned char few_[Few * sizeof(T)];
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
