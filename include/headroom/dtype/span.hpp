#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// `size` contiguous elements starting at `data`: a subset of C++20's std::span. It does not own them. `data` may be null if
/// `size` is 0. The elements need no alignment.
template <class T>
class span {
  // Pointers to arrays convert only by adding const. Pointers to elements would let a Derived[] pass as a Base[].
  template <class Pointer>
  static constexpr bool is_same_or_const = std::is_convertible_v<std::remove_pointer_t<Pointer> (*)[], T (*)[]>;

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr span() noexcept = default;
  constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}  // NOLINT: implicit, as in std::span
  /// From anything contiguous with data() and size(): std::vector, std::array, std::span, a span of non-const elements.
  template <class Container,
            std::enable_if_t<is_same_or_const<decltype(std::declval<Container&>().data())> &&
                                 std::is_convertible_v<decltype(std::declval<Container&>().size()), std::size_t>,
                             int> = 0>
  constexpr span(Container&& container) noexcept  // NOLINT: implicit, as in std::span
      : data_(container.data()), size_(static_cast<std::size_t>(container.size())) {}

  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

template <class T, std::size_t N>
span(T (&)[N]) -> span<T>;
template <class Container>
span(Container&&) -> span<std::remove_pointer_t<decltype(std::declval<Container&>().data())>>;

HEADROOM_DETAIL_END_NAMESPACE
