#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace support {

/// Whole pages of memory, at least `size` bytes, between two guard pages. Access to a guard page
/// ends the program.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t size)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    size_ = (size + page_ - 1) / page_ * page_;
    void* mapped = mmap(nullptr, size_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    first_guard_ = static_cast<unsigned char*>(mapped);
    if (mprotect(begin(), size_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~GuardedMemory() { munmap(first_guard_, size_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  [[nodiscard]] unsigned char* begin() const { return first_guard_ + page_; }
  [[nodiscard]] unsigned char* end() const { return begin() + size_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Elements that begin directly after the lower guard page.
  template <class T>
  [[nodiscard]] T* first() const {
    return reinterpret_cast<T*>(begin());
  }
  /// `n` elements that end directly before the upper guard page.
  template <class T>
  [[nodiscard]] T* last(std::size_t n) const {
    return reinterpret_cast<T*>(end() - n * sizeof(T));
  }

 private:
  std::size_t page_, size_ = 0;
  unsigned char* first_guard_ = nullptr;
};

}  // namespace support
