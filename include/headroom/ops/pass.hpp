#pragma once

#include <headroom/kernel/unchecked.hpp>
#include <headroom/ops/check.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/tree/pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

// One pass of a verb over a tree: every leaf is cut into pieces, every piece goes through a kernel, the findings are put
// together. With several threads each walks the whole tree and takes the pieces that begin in its share of the elements, so
// there is no list of work to build. Sums of pieces are added in the order of the tree, whoever has made them.

namespace headroom::detail {

// ---- what a pass does to a piece: an `Action` ----

struct Unscale {
  static constexpr bool writes = true;
  kernel::unchecked::Unscaling by;
  kernel::Stores stores = kernel::Stores::ordinary;
  template <class In, class Out>
  kernel::unchecked::Measured operator()(const In* source, Out* destination, std::size_t n) const {
    return {kernel::unchecked::unscale(source, destination, n, by, stores), 0.0};
  }
};
struct Multiply {
  static constexpr bool writes = true;
  double factor;
  kernel::Stores stores = kernel::Stores::ordinary;
  template <class In, class Out>
  kernel::unchecked::Measured operator()(const In* source, Out* destination, std::size_t n) const {
    return {kernel::unchecked::multiply(source, destination, n, factor, stores), 0.0};
  }
};
struct Convert {
  static constexpr bool writes = true;
  kernel::Stores stores = kernel::Stores::ordinary;
  template <class In, class Out>
  kernel::unchecked::Measured operator()(const In* source, Out* destination, std::size_t n) const {
    kernel::unchecked::convert(source, destination, n, stores);
    return {{}, 0.0};
  }
};
struct CheckFinite {
  static constexpr bool writes = false;
  template <class In>
  kernel::unchecked::Measured operator()(const In* elements, std::size_t n) const {
    return {kernel::unchecked::max_abs(elements, n), 0.0};
  }
};
struct MaxAbs : CheckFinite {};  // reads on where CheckFinite has seen enough
struct Measure {
  static constexpr bool writes = false;
  template <class In>
  kernel::unchecked::Measured operator()(const In* elements, std::size_t n) const {
    return kernel::unchecked::measure(elements, n);
  }
};
struct SumPrescaledSquares {
  static constexpr bool writes = false;
  double prescale;
  template <class In>
  kernel::unchecked::Measured operator()(const In* elements, std::size_t n) const {
    return {{}, kernel::unchecked::sum_of_squares(elements, n, prescale)};
  }
};

// ---- what a pass has found ----

struct Findings {
  bool finite = true;
  double max_abs = 0.0;  // of the finite pieces
  double sum_of_squares = 0.0;

  void add(const GradientReport& report) noexcept {
    finite = finite && report.finite;
    if (report.finite && report.max_abs > max_abs) max_abs = report.max_abs;
  }
  /// One after the other: -ffast-math would add them in an order of its own, and one for each number of threads.
  void add_squares(double sum) noexcept { sum_of_squares = kernel::scalar::launder(sum_of_squares + sum); }
  [[nodiscard]] GradientReport report() const noexcept {
    const auto bits = bit_cast<std::uint64_t>(max_abs);
    return {finite, bit_cast<double>(finite ? bits : binary64::infinity_bits)};
  }
};

/// Takes the pieces that begin at elements [begin, end) of the tree.
template <class Action>
class Sink {
 public:
  static constexpr bool writes = Action::writes;

  Sink(const Action& action, std::size_t begin, std::size_t end, double* sums = nullptr)
      : action_(action), begin_(begin), end_(end), sums_(sums) {}

  /// Leaves, from the walk.
  template <class... Leaves>
  void operator()(const Path&, Leaves&... leaves) {
    detail::pieces_of_leaf(*this, leaves...);
  }
  /// The next n elements: for us?
  bool wants(std::size_t n) noexcept {
    const bool ours = begin_ <= position_ && position_ < end_;
    position_ += n;
    ++piece_;
    // Who only looks for the first bad element has seen enough.
    return ours && (!std::is_same_v<Action, CheckFinite> || findings_.finite);
  }
  template <class T>
  void operator()(T* elements, std::size_t n) {
    if constexpr (Action::writes) {
      add(action_(elements, elements, n));
    } else {
      add(action_(elements, n));
    }
  }
  template <class In, class Out>
  void operator()(const In* source, Out* destination, std::size_t n) {
    add(action_(source, destination, n));
  }

  [[nodiscard]] const Findings& findings() const noexcept { return findings_; }
  [[nodiscard]] std::size_t elements() const noexcept { return position_; }
  [[nodiscard]] std::size_t pieces() const noexcept { return piece_; }

 private:
  void add(const kernel::unchecked::Measured& measured) {
    findings_.add(measured.report);
    if (sums_ == nullptr) {
      findings_.add_squares(measured.sum_of_squares);
    } else {
      sums_[piece_ - 1] = measured.sum_of_squares;
    }
  }

  const Action& action_;
  std::size_t begin_, end_;
  double* sums_;
  std::size_t position_ = 0, piece_ = 0;
  Findings findings_;
};

/// Below this many elements a thread takes longer to start than to be worth it.
inline constexpr std::size_t parallel_elements = std::size_t{1} << 18;

template <class Executor, class Action, class... Trees>
Findings run_parallel(const Executor& executor, const Action& action, std::size_t elements, std::size_t pieces,
                      Trees&... trees) {
  const std::size_t tasks = executor.concurrency();
  const auto found = std::make_unique<Findings[]>(tasks);  // in a std::vector g++ 12 -O3 sees an overflow that is not there
  std::vector<double> sums(pieces, 0.0);
  (void)active_isa();  // chosen here, where an error can be thrown
  executor.run(tasks, [&](std::size_t task) {
    Sink<Action> sink(action, elements / tasks * task, task + 1 == tasks ? elements : elements / tasks * (task + 1),
                      sums.data());
    detail::walk(Path(), sink, trees...);
    found[task] = sink.findings();
  });
  Findings total;
  for (std::size_t task = 0; task < tasks; ++task) total.add({found[task].finite, found[task].max_abs});
  for (const double sum : sums) total.add_squares(sum);
  return total;
}

/// One tree is read or changed in place; of two the first is the source, the second the destination.
template <class Executor, class Action, class... Trees>
Findings run_pass(const Executor& executor, const Action& action, Trees&... trees) {
  if (executor.concurrency() > 1) {
    Sink<Action> count(action, 0, 0);
    detail::walk(Path(), count, trees...);
    if (count.elements() >= parallel_elements) {
      return run_parallel(executor, action, count.elements(), count.pieces(), trees...);
    }
  }
  Sink<Action> sink(action, 0, ~std::size_t{0});
  detail::walk(Path(), sink, trees...);
  return sink.findings();
}

}  // namespace headroom::detail
