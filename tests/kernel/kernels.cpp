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
  [[nodiscard]] unsigned char* data() { return bytes_.data() + begin_; }
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

using Bytes = std::vector<unsigned char>;
template <class T>
Bytes bytes_of(const std::vector<T>& elements) {
  Bytes bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}
/// Random finite elements, in some cases with an Inf near the end, so that both kinds of report
/// occur.
template <class T>
Bytes some_elements() {
  std::mt19937 random(seed);
  std::vector<bits_type<T>> elements(most_elements);
  for (auto& element : elements) element = random_finite_bits<format_of<T>>(random);
  elements[most_elements - 7] = format_of<T>::infinity_bits;
  return bytes_of(elements);
}
template <class T>
Bytes many_elements() {
  std::mt19937 random(seed);
  std::vector<bits_type<T>> elements(1300);
  for (auto& element : elements) element = random_finite_bits<format_of<T>>(random);
  // So that it shows if the first elements are left out
  elements.front() = format_of<T>::largest_finite_bits;
  return bytes_of(elements);
}

/// A dtype as an argument. The checks are compiled once for all dtypes, because each takes long.
struct Dtype {
  std::string name;
  std::size_t size;
  Bytes some_elements, many_elements, many_ones;
  const Kernel *max_abs, *measure, *scale;
};
template <class T>
const Dtype& dtype() {
  static const Dtype dtype = {name_of<T>(),
                              sizeof(T),
                              some_elements<T>(),
                              many_elements<T>(),
                              bytes_of(std::vector<T>(1300, T(1.0F))),
                              kernels<Op::max_abs, format_of<T>>,
                              kernels<Op::measure, format_of<T>>,
                              kernels<Op::scale, format_of<T>>};
  return dtype;
}
const Dtype* const dtypes[] = {&dtype<half>(), &dtype<bfloat16>(), &dtype<float>(),
                               &dtype<double>()};

/// An op from one dtype to another.
struct Transform {
  Op op;
  const Kernel* by_isa;
  const Dtype &in, &out;

  GradientReport operator()(const void* source, void* destination, std::size_t n) const {
    const double factor = op == Op::unscale || op == Op::add_unscaled ? 3.0 : 0x1p-3;
    return report_of(run_kernel(by_isa, {op, factor}, source, destination, n));
  }
  /// The same in parts of at most `most` elements. Returns the largest magnitude.
  double in_parts(const void* source, void* destination, std::size_t n, std::size_t most) const {
    double largest = 0.0;
    for (std::size_t begin = 0; begin < n; begin += most) {
      const auto* const from = static_cast<const unsigned char*>(source) + begin * in.size;
      auto* const to = static_cast<unsigned char*>(destination) + begin * out.size;
      largest = std::max(largest, (*this)(from, to, std::min(most, n - begin)).max_abs);
    }
    return largest;
  }
};
template <Op op, class In, class Out>
Transform transform() {
  return {op, kernels<op, format_of<In>, format_of<Out>>, dtype<In>(), dtype<Out>()};
}
/// From each dtype to each.
template <Op op>
std::vector<Transform> transforms() {
  std::vector<Transform> all;
  for_each_dtype([&](auto in) {
    for_each_dtype([&](auto out) {
      all.push_back(transform<op, typename decltype(in)::type, typename decltype(out)::type>());
    });
  });
  return all;
}

bool same(const GradientReport& a, const GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

std::string describe(const std::string& types, std::size_t n, std::size_t offset,
                     std::size_t out_offset) {
  return types + ", n = " + std::to_string(n) + ", offsets " + std::to_string(offset) + " and " +
         std::to_string(out_offset);
}

void check_transform(Mismatches& wrong, const Transform& transform) {
  const Bytes& elements = transform.in.some_elements;
  const std::size_t in = transform.in.size, out = transform.out.size;
  // Each element alone in a span
  Bytes expected(most_elements * out), unused(most_elements * out);
  std::vector<GradientReport> reports;
  {
    const ScopedIsa scoped(Isa::portable);
    (void)transform.in_parts(elements.data(), expected.data(), most_elements, 1);
    for (std::size_t n = 0; n <= most_elements; ++n)
      reports.push_back(transform(elements.data(), unused.data(), n));
  }
  for (std::size_t n = 0; n <= most_elements; ++n) {
    for (std::size_t offset = 0; offset <= 4 * in; ++offset) {
      // The stride covers every pair of source and destination offsets over all n.
      const std::size_t out_offset = (offset + n) % (4 * out + 1);
      Unaligned source(n * in, offset, elements.data()), destination(n * out, out_offset);
      const GradientReport report = transform(source.data(), destination.data(), n);
      const bool right = same(report, reports[n]) && destination.holds(expected.data()) &&
                         destination.rest_is_untouched() && source.holds(elements.data());
      wrong.expect(right, [&] {
        return describe(transform.in.name + " to " + transform.out.name, n, offset, out_offset);
      });
    }
  }
}

void check_reads(Mismatches& wrong, const Dtype& dtype) {
  const auto max_abs = [&](const void* first, std::size_t n) {
    return report_of(run_kernel(dtype.max_abs, {Op::max_abs}, first, nullptr, n));
  };
  const auto measure = [&](const void* first, std::size_t n) {
    return run_kernel(dtype.measure, {Op::measure}, first, nullptr, n);
  };
  const Bytes& elements = dtype.some_elements;
  for (std::size_t n = 0; n <= most_elements; ++n) {
    GradientReport largest;
    Found measured{};
    {
      const ScopedIsa scoped(Isa::portable);
      largest = max_abs(elements.data(), n);
      measured = measure(elements.data(), n);
    }
    for (std::size_t offset = 0; offset <= 4 * dtype.size; ++offset) {
      Unaligned values(n * dtype.size, offset, elements.data());
      const Found found = measure(values.data(), n);
      const bool same_sum = !report_of(found).finite ||
                            bits_of(found.sum_of_squares) == bits_of(measured.sum_of_squares);
      const bool right = same(max_abs(values.data(), n), largest) &&
                         same(report_of(found), report_of(measured)) && same_sum;
      wrong.expect(right, [&] { return describe(dtype.name, n, offset, 0); });
    }
  }
}

/// Long spans: kernels process the first elements separately, so that the rest begins at a cache
/// line.
void check_long_spans(Mismatches& wrong, const Transform& transform) {
  const Bytes &elements = transform.in.many_elements, &before = transform.out.many_ones;
  const std::size_t in = transform.in.size, out = transform.out.size;
  for (const std::size_t n : {191U, 192U, 260U, 1023U, 1024U, 1300U}) {
    for (const std::size_t offset : {0U, 1U, 2U, 4U, 16U, 30U, 48U, 60U, 62U}) {
      const std::size_t out_offset = (offset * 3 + n) % 64;
      Unaligned source(n * in, offset, elements.data()),
          destination(n * out, out_offset, before.data());
      Bytes expected = before;
      const double largest = transform.in_parts(elements.data(), expected.data(), n, 50);
      const GradientReport report = transform(source.data(), destination.data(), n);
      bool right = bits_of(report.max_abs) == bits_of(largest) &&
                   destination.holds(expected.data()) && destination.rest_is_untouched();
      if (&transform.in == &transform.out) {
        expected = elements;
        (void)transform.in_parts(expected.data(), expected.data(), n, 50);
        (void)transform(source.data(), source.data(), n);
        right = right && source.holds(expected.data()) && source.rest_is_untouched();
      }
      wrong.expect(right, [&] {
        return describe(transform.in.name + " to " + transform.out.name, n, offset, out_offset);
      });
    }
  }
}

void check_all(void (*check)(Mismatches&, const Transform&),
               const std::vector<Transform>& transforms) {
  for_each_isa([&](Isa) {
    Mismatches wrong;
    for (const Transform& transform : transforms) check(wrong, transform);
    CHECK(wrong.first() == "");
  });
}

}  // namespace

TEST_CASE("an element's result does not depend on where it lies", "[kernel]") {
  check_all(&check_transform, transforms<Op::scale>());
  check_all(&check_transform, transforms<Op::unscale>());
  check_all(&check_transform, transforms<Op::cast>());
}
TEST_CASE("what is measured does not depend on where the elements lie", "[kernel]") {
  for_each_isa([&](Isa) {
    Mismatches wrong;
    for (const Dtype* const dtype : dtypes) check_reads(wrong, *dtype);
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("long spans become what short ones become, wherever they lie", "[kernel]") {
  check_all(&check_long_spans, transforms<Op::scale>());
  check_all(&check_long_spans, transforms<Op::unscale>());
  check_all(
      &check_long_spans,
      {transform<Op::add_scaled, half, float>(), transform<Op::add_scaled, bfloat16, float>(),
       transform<Op::add_scaled, float, float>(), transform<Op::add_scaled, double, float>()});
}

TEST_CASE("a list of pieces is what its pieces are, one by one", "[kernel]") {
  std::mt19937 random(seed);
  for_each_isa([&](Isa) {
    for (const Dtype* const dtype : dtypes) {
      for (int round = 0; round < 200; ++round) {
        std::vector<Piece> pieces;
        Bytes list = dtype->some_elements, single = list;
        Found expected{0, 0.0}, found{0, 0.0};
        for (std::size_t begin = 0; begin < most_elements;) {
          const std::size_t n = std::min<std::size_t>(random() % 40, most_elements - begin);
          auto* const of_list = list.data() + begin * dtype->size;
          auto* const of_single = single.data() + begin * dtype->size;
          pieces.push_back({of_list, of_list, n});
          const Found one = run_kernel(dtype->scale, {Op::scale, 0.5}, of_single, of_single, n);
          expected.max_abs = std::max(expected.max_abs, one.max_abs);
          begin += n;
        }
        const auto* const last = pieces.data() + pieces.size();
        dtype->scale[isa_index()](pieces.data(), last, {Op::scale, 0.5}, found);
        INFO(dtype->name);
        CHECK(found.max_abs == expected.max_abs);
        CHECK(list == single);
        Found sums{0, 0.0}, by_piece{0, 0.0};
        dtype->measure[isa_index()](pieces.data(), last, {Op::measure}, sums);
        for (const auto& piece : pieces) {
          const Found one =
              run_kernel(dtype->measure, {Op::measure}, piece.source, nullptr, piece.size);
          add_to_sum(by_piece, one.sum_of_squares);
        }
        if (report_of(sums).finite)
          CHECK(bits_of(sums.sum_of_squares) == bits_of(by_piece.sum_of_squares));
      }
    }
  });
}
