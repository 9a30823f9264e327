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
HEADROOM_HIDDEN inline std::atomic<void*> spare_blocks[4]{};

}  // namespace headroom::shared_v1

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A list of trivial elements. The first `Few` are stored in the object itself, more in a block that the next list reuses, so
/// that repeated calls of a verb allocate nothing.
template <class T, std::size_t Few>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  Buffer() noexcept : begin_(reinterpret_cast<T*>(few_)), capacity_(Few) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (block_ != nullptr) give_back(block_);
  }

  void push_back(const T& value) {
    if (size_ == capacity_) grow();
    ::new (static_cast<void*>(begin_ + size_++)) T(value);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* begin() noexcept { return begin_; }
  [[nodiscard]] T* end() noexcept { return begin_ + size_; }
  [[nodiscard]] const T* begin() const noexcept { return begin_; }
  [[nodiscard]] const T* end() const noexcept { return begin_ + size_; }
  [[nodiscard]] T& back() noexcept { return begin_[size_ - 1]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return begin_[i]; }

 private:
  static constexpr std::size_t head = alignof(std::max_align_t);  // of a block: its size

  [[gnu::cold, gnu::noinline]] void grow() {
    void* const block = take(head + 2 * capacity_ * sizeof(T));
    T* const elements = reinterpret_cast<T*>(static_cast<unsigned char*>(block) + head);
    std::memcpy(static_cast<void*>(elements), begin_, size_ * sizeof(T));
    if (block_ != nullptr) ::operator delete(block_);
    block_ = block;
    begin_ = elements;
    capacity_ = (size_of(block) - head) / sizeof(T);
  }
  static std::size_t size_of(const void* block) noexcept {
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    return bytes;
  }
  static void* take(std::size_t bytes) {
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
  static void give_back(void* block) noexcept {
    free_at_the_end();
    for (auto& spare : shared_v1::spare_blocks) {
      void* none = nullptr;
      if (spare.compare_exchange_strong(none, block, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    ::operator delete(block);
  }
  static void free_at_the_end() noexcept {
    struct End {
      ~End() {
        for (auto& spare : shared_v1::spare_blocks) ::operator delete(spare.exchange(nullptr));
      }
    };
    static const End at_the_end;
  }

  T* begin_;
  std::size_t size_ = 0, capacity_;
  void* block_ = nullptr;
  alignas(T) unsigned char few_[Few * sizeof(T)];
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
