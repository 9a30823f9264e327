#pragma once

#include <headroom/config.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
/// A list of trivially copyable elements. The object itself has room for `Few`.
template <class T, std::size_t Few>
class Buffer {
 public:
  Buffer() noexcept : begin_(few()), end_(begin_), limit_(begin_ + Few) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (begin_ != few()) release();
  }

  void push_back(const T& value) {
    make_room();
    ::new (static_cast<void*>(end_++)) T(value);
  }
  /// Makes room for at least one element from end() to limit(). Write elements there, then call
  /// end_at().
  void make_room() {
    if (end_ == limit_) grow();
  }
  [[nodiscard]] T* limit() noexcept { return limit_; }
  void end_at(T* end) noexcept { end_ = end; }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(end_ - begin_);
  }
  [[nodiscard]] T* begin() const noexcept { return begin_; }
  [[nodiscard]] T* end() const noexcept { return end_; }

 private:
  [[nodiscard]] T* few() noexcept { return reinterpret_cast<T*>(few_); }
  [[gnu::noinline]] void release() noexcept {
    if (size() > longest_.load(std::memory_order_relaxed))
      longest_.store(size(), std::memory_order_relaxed);
    ::operator delete(begin_);
  }
  [[gnu::noinline]] void grow() {
    const std::size_t count = size(),
                      room = std::max(2 * count, longest_.load(std::memory_order_relaxed) + 1);
    T* const larger = static_cast<T*>(::operator new(room * sizeof(T)));
    std::memcpy(static_cast<void*>(larger), begin_, count * sizeof(T));
    if (begin_ != few()) ::operator delete(begin_);
    begin_ = larger;
    end_ = larger + count;
    limit_ = larger + room;
  }

  static inline std::atomic<std::size_t> longest_{0};  // so far: the next list is often as long

  T *begin_, *end_, *limit_;
  alignas(T) unsigned char few_[Few * sizeof(T)];
};
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
