#pragma once

#include <headroom/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

// Shared by translation units with different flags and versions under the rules of shared.hpp; the program and each shared
// library have their own.
namespace headroom::shared_v1 {

/// Blocks of memory between two uses, each with its size in bytes at the beginning.
HEADROOM_DETAIL_HIDDEN inline std::atomic<void*> spare_blocks[4]{};

}  // namespace headroom::shared_v1

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Blocks for lists that grow. What one list gives back the next one takes over, so that verbs that are called again and again
/// allocate nothing.
struct HEADROOM_DETAIL_HIDDEN Blocks {
  static constexpr std::size_t head = alignof(std::max_align_t);  // of a block: its size

  [[nodiscard]] static std::size_t size_of(const void* block) noexcept {
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    return bytes;
  }
  [[nodiscard]] static void* take(std::size_t bytes) {
    for (auto& spare : shared_v1::spare_blocks) {
      void* const block = spare.exchange(nullptr, std::memory_order_acquire);
      if (block == nullptr) continue;
      if (size_of(block) >= bytes) return block;
      ::operator delete(block);
    }
    void* const block = ::operator new(bytes);
    std::memcpy(block, &bytes, sizeof bytes);
    return block;
  }
  [[gnu::cold, gnu::noinline]] static void give_back(void* block) noexcept {
    struct End {
      ~End() {
        for (auto& spare : shared_v1::spare_blocks) ::operator delete(spare.exchange(nullptr));
      }
    };
    static const End frees_all_at_the_end;
    for (auto& spare : shared_v1::spare_blocks) {
      void* none = nullptr;
      if (spare.compare_exchange_strong(none, block, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    ::operator delete(block);
  }
  /// A block of twice the size with the elements of the list, whose block, if it has one, goes.
  [[nodiscard, gnu::cold, gnu::noinline]] static void* grown(void* block, const void* elements, std::size_t bytes) {
    void* const larger = take(head + 2 * bytes);
    std::memcpy(static_cast<unsigned char*>(larger) + head, elements, bytes);
    if (block != nullptr) ::operator delete(block);
    return larger;
  }
};

/// A list of trivial elements, of which the first `Few` lie in the object itself.
template <class T, std::size_t Few>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  Buffer() noexcept : begin_(reinterpret_cast<T*>(few_)), end_(begin_), limit_(begin_ + Few) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (block_ != nullptr) Blocks::give_back(block_);
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
  void grow() {
    const std::size_t count = size();
    block_ = Blocks::grown(block_, begin_, count * sizeof(T));
    begin_ = reinterpret_cast<T*>(static_cast<unsigned char*>(block_) + Blocks::head);
    end_ = begin_ + count;
    limit_ = begin_ + (Blocks::size_of(block_) - Blocks::head) / sizeof(T);
  }

  T *begin_, *end_, *limit_;
  void* block_ = nullptr;
  alignas(T) unsigned char few_[Few * sizeof(T)];
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
