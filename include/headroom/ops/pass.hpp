#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/unchecked.hpp>
#include <headroom/ops/check.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/tree/pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

// One pass of a verb over a tree: every leaf is cut into pieces, every piece goes through a kernel, the findings are put
// together. With several threads each walks the whole tree and takes the pieces that begin in its share of the bytes, so
// there is no list of work to build. Sums of pieces are added in the order of the tree, whoever has made them.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

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
  int exponent;  // they are divided by 2^exponent first
  template <class In>
  kernel::unchecked::Measured operator()(const In* elements, std::size_t n) const {
    return {{}, kernel::unchecked::sum_of_squares(elements, n, exponent)};
  }
};

// ---- what a pass has found ----

struct Findings {
  std::uint64_t largest = 0;  // the bits of a report's max_abs, which order as the values do: where not finite, those of Inf
  double sum_of_squares = 0.0;

  [[nodiscard]] bool finite() const noexcept { return largest < binary64::infinity_bits; }
  void add(std::uint64_t max_abs) noexcept { largest = max_abs > largest ? max_abs : largest; }
  /// One after the other: -ffast-math would add them in an order of its own, and one for each number of threads.
  void add_squares(double sum) noexcept { sum_of_squares = kernel::scalar::launder(sum_of_squares + sum); }
  [[nodiscard]] GradientReport report() const noexcept { return {finite(), bit_cast<double>(largest)}; }
};

/// Takes the pieces that begin at bytes [begin, end) of the tree.
template <class Action>
class Sink {
 public:
  static constexpr bool writes = Action::writes;

  /// With `sums` the sum of each piece goes there, by itself.
  Sink(const Action& action, std::size_t begin, std::size_t end, std::vector<double>* sums = nullptr)
      : action_(action), begin_(begin), end_(end), sums_(sums) {}

  /// Leaves, from the walk.
  template <class... Leaves>
  void operator()(const Path&, Leaves&... leaves) {
    detail::pieces_of_leaf(*this, leaves...);
  }
  /// The next piece: for us?
  bool wants(std::size_t bytes) noexcept {
    const bool ours = begin_ <= position_ && position_ < end_;
    position_ += bytes;
    // Who only looks for the first bad element has seen enough.
    return ours && (!std::is_same_v<Action, CheckFinite> || findings_.finite());
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

 private:
  void add(const kernel::unchecked::Measured& measured) {
    findings_.add(bit_cast<std::uint64_t>(measured.report.max_abs));
    if constexpr (Action::writes || std::is_base_of_v<CheckFinite, Action>) return;  // measures no norm
    if (sums_ == nullptr) {
      findings_.add_squares(measured.sum_of_squares);
    } else {
      sums_->push_back(measured.sum_of_squares);
    }
  }

  const Action& action_;
  std::size_t begin_, end_;
  std::vector<double>* sums_;
  std::size_t position_ = 0;
  Findings findings_;
};

/// Bytes below which a thread takes longer to start than to be worth it.
inline constexpr std::size_t least_share = std::size_t{1} << 19;

struct Share {
  Findings findings;
  std::vector<double> sums;
};

template <class Executor, class Action, class... Trees>
Findings run_parallel(const Executor& executor, const Action& action, std::size_t bytes, Trees&... trees) {
  const std::size_t tasks = std::min<std::size_t>(executor.concurrency(), bytes / least_share);
  const auto shares = std::make_unique<Share[]>(tasks);  // in a std::vector g++ 12 -O3 sees an overflow that is not there
  (void)active_isa();                                    // chosen here, where an error can be thrown
  executor.run(tasks, [&](std::size_t task) {
    const std::size_t begin = bytes / tasks * task, end = task + 1 == tasks ? ~std::size_t{0} : bytes / tasks * (task + 1);
    std::vector<double> sums;  // not yet in `shares`, whose cache lines several threads write to
    Sink<Action> sink(action, begin, end, &sums);
    detail::walk(Path(), sink, trees...);
    shares[task] = {sink.findings(), std::move(sums)};
  });
  Findings total;
  for (std::size_t task = 0; task < tasks; ++task) {
    total.add(shares[task].findings.largest);
    for (const double sum : shares[task].sums) total.add_squares(sum);
  }
  return total;
}

/// One tree is read or changed in place; of two the first is the source, the second the destination. `bytes` of all leaves.
template <class Executor, class Action, class... Trees>
Findings run_pass(const Executor& executor, const Action& action, std::size_t bytes, Trees&... trees) {
  if constexpr (check_is_executor<Executor>()) {
    if (executor.concurrency() > 1 && bytes >= 2 * least_share) return run_parallel(executor, action, bytes, trees...);
  }
  Sink<Action> sink(action, 0, ~std::size_t{0});
  detail::walk(Path(), sink, trees...);
  return sink.findings();
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
