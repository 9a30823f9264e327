#include <headroom/headroom.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/kernels.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

/// Every tail of registers of up to 16 elements: after no whole register, one, several, and a whole
/// unrolled round.
constexpr std::size_t most_elements = 3 * 16 + 17;
constexpr unsigned char untouched = 0xA5;

/// Bytes at any address, with watched bytes around them. The kernels access bytes, so the pointers
/// need no alignment.
class Unaligned {
 public:
  Unaligned(std::size_t size, std::size_t offset)
      : bytes_(size + 2 * margin, untouched), size_(size), begin_(margin + offset) {}
  Unaligned(std::size_t size, std::size_t offset, const void* contents) : Unaligned(size, offset) {
    std::memcpy(bytes_.data() + begin_, contents, size);
  }
  template <class T>
  [[nodiscard]] T* as() {
    return reinterpret_cast<T*>(bytes_.data() + begin_);
  }
  [[nodiscard]] bool holds(const void* contents) const {
    return std::memcmp(bytes_.data() + begin_, contents, size_) == 0;
  }
  [[nodiscard]] bool rest_is_untouched() const {
    const auto is_untouched = [](unsigned char byte) { return byte == untouched; };
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(bytes_.begin(), begin, is_untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(size_), bytes_.end(), is_untouched);
  }

 private:
  static constexpr std::size_t margin = 128;
  std::vector<unsigned char> bytes_;
  std::size_t size_, begin_;
};

template <Op op>
struct Run {
  template <class In, class Out>
  static GradientReport run(const In* source, Out* destination, std::size_t n) {
    return report_of(run_kernel<op>(source, destination, n,
                                    op == Op::unscale || op == Op::add_unscaled ? 3.0 : 0x1p-3));
  }
};

bool same(const GradientReport& a, const GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

std::string describe(const std::string& types, std::size_t n, std::size_t offset,
                     std::size_t out_offset) {
  return types + ", n = " + std::to_string(n) + ", offsets " + std::to_string(offset) + " and " +
         std::to_string(out_offset);
}

/// Random finite elements, in some cases with an Inf near the end, so that both kinds of report
/// occur.
template <class T>
std::vector<T> some_elements() {
  std::mt19937 random(seed);
  std::vector<bits_type<T>> elements(most_elements);
  for (auto& element : elements) element = random_finite_bits<format_of<T>>(random);
  elements[most_elements - 7] = format_of<T>::infinity_bits;
  return values_with<T>(elements);
}

/// The result for each element alone in a span, by the portable kernel.
template <class Verb, class In, class Out>
std::vector<Out> one_by_one(const std::vector<In>& elements) {
  const ScopedIsa scoped(Isa::portable);
  std::vector<Out> results(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i)
    (void)Verb::run(elements.data() + i, results.data() + i, 1);
  return results;
}

template <class Verb, class In, class Out>
GradientReport report_by_portable(const std::vector<In>& elements, std::size_t n) {
  const ScopedIsa scoped(Isa::portable);
  std::vector<Out> results(n);
  return Verb::run(elements.data(), results.data(), n);
}

template <class Verb, class In, class Out>
void check_transform(Mismatches& wrong) {
  const auto elements = some_elements<In>();
  const auto expected = one_by_one<Verb, In, Out>(elements);
  for (std::size_t n = 0; n <= most_elements; ++n) {
    const GradientReport expected_report = report_by_portable<Verb, In, Out>(elements, n);
    for (std::size_t offset = 0; offset <= 4 * sizeof(In); ++offset) {
      // The stride covers every pair of source and destination offsets over all n.
      const std::size_t out_offset = (offset + n) % (4 * sizeof(Out) + 1);
      Unaligned source(n * sizeof(In), offset, elements.data()),
          destination(n * sizeof(Out), out_offset);
      const GradientReport report =
          Verb::run(static_cast<const In*>(source.as<In>()), destination.as<Out>(), n);
      const bool right = same(report, expected_report) && destination.holds(expected.data()) &&
                         destination.rest_is_untouched() && source.holds(elements.data());
      wrong.expect(right, [&] {
        return describe(name_of<In>() + " to " + name_of<Out>(), n, offset, out_offset);
      });
    }
  }
}

template <class T>
void check_reads(Mismatches& wrong) {
  const auto elements = some_elements<T>();
  for (std::size_t n = 0; n <= most_elements; ++n) {
    GradientReport largest;
    Found measured{};
    {
      const ScopedIsa scoped(Isa::portable);
      largest = report_of(run_kernel<Op::max_abs>(elements.data(), elements.data(), n));
      measured = run_kernel<Op::measure>(elements.data(), elements.data(), n);
    }
    for (std::size_t offset = 0; offset <= 4 * sizeof(T); ++offset) {
      Unaligned values(n * sizeof(T), offset, elements.data());
      const auto* const first = values.as<const T>();
      const Found found = run_kernel<Op::measure>(first, first, n);
      const bool same_sum = !report_of(found).finite ||
                            bits_of(found.sum_of_squares) == bits_of(measured.sum_of_squares);
      const bool right = same(report_of(run_kernel<Op::max_abs>(first, first, n)), largest) &&
                         same(report_of(found), report_of(measured)) && same_sum;
      wrong.expect(right, [&] { return describe(name_of<T>(), n, offset, 0); });
    }
  }
}

/// Long spans: kernels process the first elements separately, so that the rest begins at a cache
/// line.
template <class Verb, class In, class Out>
void check_long_spans(Mismatches& wrong) {
  std::mt19937 random(seed);
  std::vector<bits_type<In>> bits(1300);
  for (auto& element : bits) element = random_finite_bits<format_of<In>>(random);
  // So that it shows if the first elements are left out
  bits.front() = format_of<In>::largest_finite_bits;
  const auto elements = values_with<In>(bits);
  for (const std::size_t n : {191U, 192U, 260U, 1023U, 1024U, 1300U}) {
    for (const std::size_t offset : {0U, 1U, 2U, 4U, 16U, 30U, 48U, 60U, 62U}) {
      const std::size_t out_offset = (offset * 3 + n) % 64;
      const std::vector<Out> before(n, Out(1.0F));
      Unaligned source(n * sizeof(In), offset, elements.data()),
          destination(n * sizeof(Out), out_offset, before.data());
      std::vector<Out> expected = before;
      double largest = 0.0;
      for (std::size_t begin = 0; begin < n; begin += 50) {
        const std::size_t part = std::min<std::size_t>(50, n - begin);
        largest = std::max(
            largest, Verb::run(elements.data() + begin, expected.data() + begin, part).max_abs);
      }
      const GradientReport report =
          Verb::run(static_cast<const In*>(source.as<In>()), destination.as<Out>(), n);
      bool right = bits_of(report.max_abs) == bits_of(largest) &&
                   destination.holds(expected.data()) && destination.rest_is_untouched();
      if constexpr (std::is_same_v<In, Out>) {
        expected.assign(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(n));
        for (std::size_t begin = 0; begin < n; begin += 50) {
          (void)Verb::run(expected.data() + begin, expected.data() + begin,
                          std::min<std::size_t>(50, n - begin));
        }
        (void)Verb::run(source.as<In>(), source.as<In>(), n);
        right = right && source.holds(expected.data()) && source.rest_is_untouched();
      }
      wrong.expect(right, [&] {
        return describe(name_of<In>() + " to " + name_of<Out>(), n, offset, out_offset);
      });
    }
  }
}

template <class Verb>
void check_all_pairs() {
  for_each_isa([&](Isa) {
    Mismatches wrong;
    for_each_dtype([&](auto in) {
      for_each_dtype([&](auto out) {
        check_transform<Verb, typename decltype(in)::type, typename decltype(out)::type>(wrong);
      });
    });
    CHECK(wrong.first() == "");
  });
}

}  // namespace

TEST_CASE("an element's result does not depend on where it lies", "[kernel]") {
  check_all_pairs<Run<Op::scale>>();
  check_all_pairs<Run<Op::unscale>>();
  check_all_pairs<Run<Op::cast>>();
}
TEST_CASE("what is measured does not depend on where the elements lie", "[kernel]") {
  for_each_isa([&](Isa) {
    Mismatches wrong;
    for_each_dtype([&](auto type) { check_reads<typename decltype(type)::type>(wrong); });
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("long spans become what short ones become, wherever they lie", "[kernel]") {
  for_each_isa([&](Isa) {
    Mismatches wrong;
    for_each_dtype([&](auto in) {
      using In = typename decltype(in)::type;
      for_each_dtype([&](auto out) {
        check_long_spans<Run<Op::scale>, In, typename decltype(out)::type>(wrong);
        check_long_spans<Run<Op::unscale>, In, typename decltype(out)::type>(wrong);
      });
      check_long_spans<Run<Op::add_scaled>, In, float>(wrong);
    });
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("a list of pieces is what its pieces are, one by one", "[kernel]") {
  std::mt19937 random(seed);
  for_each_isa([&](Isa) {
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      const auto elements = some_elements<T>();
      for (int round = 0; round < 200; ++round) {
        std::vector<Piece> pieces;
        std::vector<T> list = elements, single = elements;
        Found expected{0, 0.0}, found{0, 0.0};
        for (std::size_t begin = 0; begin < most_elements;) {
          const std::size_t n = std::min<std::size_t>(random() % 40, most_elements - begin);
          pieces.push_back({list.data() + begin, list.data() + begin, n});
          const Found one =
              run_kernel<Op::scale>(single.data() + begin, single.data() + begin, n, 0.5);
          expected.max_abs = std::max(expected.max_abs, one.max_abs);
          begin += n;
        }
        using Format = format_of<T>;
        const auto* const last = pieces.data() + pieces.size();
        kernels<Op::scale, Format>[isa_index()](pieces.data(), last, Pass{Op::scale, 0.5}, found);
        CHECK(found.max_abs == expected.max_abs);
        CHECK(bits_of(list) == bits_of(single));
        Found sums{0, 0.0}, by_piece{0, 0.0};
        kernels<Op::measure, Format>[isa_index()](pieces.data(), last, Pass{Op::measure}, sums);
        for (const auto& piece : pieces) {
          const auto* const first = static_cast<const T*>(piece.source);
          add_to_sum(by_piece, run_kernel<Op::measure>(first, first, piece.size).sum_of_squares);
        }
        if (report_of(sums).finite)
          CHECK(bits_of(sums.sum_of_squares) == bits_of(by_piece.sum_of_squares));
      }
    });
  });
}
