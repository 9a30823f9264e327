// For libFuzzer. A verb on a tensor of any dtype, shape, strides and alignment, on any instruction
// set, against the slow reference. Bytes between the elements stay as they are. The sanitizer
// watches those around the tensor.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/fp8.hpp"
#include "support/generator.hpp"
#include "support/kernels.hpp"
#include "support/reference.hpp"

namespace {

using headroom::any_tensor;
using support::any_bits;
using support::below;
using support::one_in;

void expect(bool holds) {
  if (!holds) std::abort();
}

// ---- the reference ----

enum class Verb { scale, unscale, accumulate, cast, saturating_cast, quantize };
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class F, class T>
T number_of(typename F::bits_type bits) {
  if (support::is_nan<F>(bits)) return std::numeric_limits<T>::quiet_NaN();
  const T magnitude = support::is_finite<F>(bits)
                          ? static_cast<T>(support::to_long_double(support::decode<F>(bits)))
                          : std::numeric_limits<T>::infinity();
  return (bits & F::sign_mask) != 0 ? -std::fabs(magnitude) : magnitude;
}
/// What an element becomes, and the number that the report describes.
struct Result {
  std::uint64_t bits;
  double reported;
};
template <class In, class Out>
std::uint64_t computed(support::Number (*operation)(support::Number, support::Number),
                       std::uint64_t element, float factor) {
  return support::compute<In, Out>(operation, static_cast<typename In::bits_type>(element), factor)
      .bits;
}
template <class F>
double reported(std::uint64_t bits) {
  return number_of<F, double>(static_cast<typename F::bits_type>(bits));
}
template <class In, class Out>
Result result_of(Verb verb, std::uint64_t element, std::uint64_t old, float factor) {
  using Compute = support::compute_format<In, Out>;
  using T = std::conditional_t<std::is_same_v<Compute, headroom::binary32>, float, double>;
  const auto bits = static_cast<typename In::bits_type>(element);
  if (verb == Verb::quantize)
    return {support::quantized<In, Out>(bits, factor).bits, reported<In>(bits)};
  if (verb == Verb::accumulate) {
    const std::uint64_t term = computed<In, Compute>(&support::quotient, bits, factor);
    const T sum = number_of<Compute, T>(static_cast<typename Compute::bits_type>(term)) +
                  number_of<Out, T>(static_cast<typename Out::bits_type>(old));
    return {computed<Compute, Out>(&support::product, support::bits_of(sum), 1.0F),
            reported<Compute>(term)};
  }
  const bool casts = verb == Verb::cast || verb == Verb::saturating_cast;
  std::uint64_t stored = computed<In, Out>(
      verb == Verb::unscale ? &support::quotient : &support::product, bits, casts ? 1.0F : factor);
  if (verb == Verb::saturating_cast && !support::is_nan<In>(bits))
    stored = support::saturated<Out>(stored);
  return {stored, reported<Out>(stored)};
}

// ---- the dtypes ----

struct Dtype {
  headroom::dtype_code code;
  std::size_t size;
  support::Layout layout;
  double (*number)(std::uint64_t bits);
  // By the index of the destination's dtype
  Result (*result[6])(Verb, std::uint64_t, std::uint64_t, float);
};
template <class In, class... Formats>
constexpr Dtype dtype_of(headroom::dtype_code code) {
  return {code,
          sizeof(typename In::bits_type),
          support::layout_of<In>,
          &reported<In>,
          {&result_of<In, Formats>...}};
}
template <class... Formats>
constexpr std::vector<Dtype> (*make_dtypes)() = [] {
  using headroom::dtype_code;
  constexpr dtype_code codes[] = {dtype_code::fp16, dtype_code::bf16,     dtype_code::fp32,
                                  dtype_code::fp64, dtype_code::fp8_e4m3, dtype_code::fp8_e5m2};
  std::size_t i = 0;
  return std::vector<Dtype>{dtype_of<Formats, Formats...>(codes[i++])...};
};
const std::vector<Dtype> dtypes =
    make_dtypes<headroom::binary16, headroom::brain16, headroom::binary32, headroom::binary64,
                headroom::e4m3, headroom::e5m2>();

// ---- tensors ----

struct Shape {
  std::int32_t ndim = one_in(2) ? 0 : 1 + static_cast<std::int32_t>(below(3));
  std::int64_t sizes[3] = {};
  std::size_t elements = ndim == 0 ? below(one_in(16) ? 1500 : 100) : 1;

  Shape() {
    for (int i = 0; i < ndim; ++i)
      elements *= static_cast<std::size_t>(sizes[i] = static_cast<std::int64_t>(below(9)));
  }
};
/// Elements in memory of exactly the bytes from an offset to the last one, in an order and with
/// gaps of its own.
struct Tensor {
  const Shape& shape;
  const Dtype& dtype;
  std::int64_t strides[3] = {1, 1, 1};
  std::size_t first = 0;  // the byte where the element at index 0 begins
  std::vector<unsigned char> memory;

  Tensor(const Shape& of, const Dtype& with) : shape(of), dtype(with) {
    std::int64_t span = 1, start = 0;
    const std::size_t rotation = below(3);
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape.ndim); ++k) {
      const std::size_t i = (k + rotation) % static_cast<std::size_t>(shape.ndim);
      strides[i] = span + static_cast<std::int64_t>(below(3) / 2);
      if (shape.sizes[i] == 0) continue;
      span += strides[i] * (shape.sizes[i] - 1);
      if (!one_in(4)) continue;
      start += strides[i] * (shape.sizes[i] - 1);
      strides[i] = -strides[i];
    }
    const std::size_t offset = below(65);
    first = offset + static_cast<std::size_t>(start) * dtype.size;
    memory.assign(
        offset + (shape.ndim == 0 ? shape.elements : static_cast<std::size_t>(span)) * dtype.size,
        0xA5);
    const std::size_t patterns = 1 + below(8);
    std::uint64_t pattern[8];
    for (std::size_t i = 0; i < patterns; ++i) pattern[i] = any_bits<std::uint64_t>() + below(2);
    for (std::size_t i = 0; i < shape.elements; ++i) set(i, pattern[i % patterns]);
  }
  [[nodiscard]] any_tensor view() {
    const auto ndim = static_cast<std::size_t>(shape.ndim);
    if (ndim == 0) return {memory.data() + first, dtype.code, shape.elements};
    return {memory.data() + first, dtype.code, headroom::span(shape.sizes, ndim),
            headroom::span(strides, ndim)};
  }
  [[nodiscard]] std::size_t place(std::size_t i) const {
    auto rest = static_cast<std::int64_t>(i), elements = std::int64_t{0};
    if (shape.ndim == 0) elements = rest;
    for (int d = shape.ndim; d-- > 0; rest /= shape.sizes[d])
      elements += rest % shape.sizes[d] * strides[d];
    return first + static_cast<std::size_t>(elements) * dtype.size;
  }
  [[nodiscard]] std::uint64_t at(std::size_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(low_bytes(bits), memory.data() + place(i), dtype.size);
    return bits;
  }
  void set(std::size_t i, std::uint64_t bits) {
    std::memcpy(memory.data() + place(i), low_bytes(bits), dtype.size);
  }
  /// Where the element's bytes are in `bits`.
  [[nodiscard]] unsigned char* low_bytes(std::uint64_t& bits) const {
    const std::uint16_t one = 1;
    const bool is_little_endian = *reinterpret_cast<const unsigned char*>(&one) == 1;
    return reinterpret_cast<unsigned char*>(&bits) +
           (is_little_endian ? 0 : sizeof bits - dtype.size);
  }
};

// ---- the checks ----

bool is_allowed(Verb verb, float factor) {
  if (verb == Verb::cast || verb == Verb::saturating_cast) return true;
  if (verb == Verb::scale) return std::isfinite(factor);
  if (verb == Verb::quantize) return factor > 0.0F && std::isfinite(factor);
  return factor >= headroom::smallest_loss_scale && factor <= headroom::largest_loss_scale;
}
/// The result of a verb that has no report is that of `measure`.
headroom::GradientReport call(Verb verb, const any_tensor& from, const any_tensor& to, float factor,
                              double& leaf_max_abs) {
  float max_abs = 0.0F;
  switch (verb) {
    case Verb::scale:
      support::scale_into(from, to, static_cast<double>(factor));
      break;
    case Verb::unscale:
      return headroom::unscale_into(from, to, factor);
    case Verb::accumulate:
      return headroom::accumulate_into(from, to, factor);
    case Verb::cast:
      headroom::cast_into(from, to);
      break;
    case Verb::saturating_cast:
      headroom::cast_into(from, to, headroom::saturate);
      break;
    case Verb::quantize: {
      const auto report = headroom::quantize_into(from, to, headroom::span<const float>(&factor, 1),
                                                  headroom::span(&max_abs, 1));
      leaf_max_abs = static_cast<double>(max_abs);
      return report;
    }
  }
  return headroom::measure(to);
}
/// What the report says of these numbers.
struct Expected {
  bool finite = true;
  double max_abs = 0.0;
  void add(double number) {
    finite = finite && std::isfinite(number);
    max_abs = finite ? std::max(max_abs, std::fabs(number)) : infinity;
  }
  [[nodiscard]] bool is(const headroom::GradientReport& report) const {
    return report.finite == finite && report.max_abs == max_abs;
  }
};

void check_verb(Verb verb, Tensor& from, Tensor& to, float factor) {
  Tensor wanted = to;
  Expected expected;
  const auto out = static_cast<std::size_t>(&to.dtype - dtypes.data());
  for (std::size_t i = 0; i < from.shape.elements; ++i) {
    const Result result = from.dtype.result[out](verb, from.at(i), to.at(i), factor);
    wanted.set(i, result.bits);
    expected.add(result.reported);
  }
  double leaf_max_abs = static_cast<double>(static_cast<float>(expected.max_abs));
  expect(expected.is(call(verb, from.view(), to.view(), factor, leaf_max_abs)));
  expect(leaf_max_abs == static_cast<double>(static_cast<float>(expected.max_abs)));
  for (std::size_t i = 0; i < to.shape.elements; ++i) {
    expect(to.dtype.layout.same_bits(to.at(i), wanted.at(i)));
    to.set(i, wanted.at(i));  // payloads of NaN may differ
  }
  expect(to.memory == wanted.memory);
}
void check_refused(Verb verb, Tensor& from, Tensor& to, float factor) {
  const std::vector<unsigned char> before = to.memory;
  double ignored = 0.0;
  try {
    (void)call(verb, from.view(), to.view(), factor, ignored);
    std::abort();
  } catch (const std::invalid_argument&) {
  }
  expect(to.memory == before);
}
/// The elements in the order of memory, in which find_nonfinite counts; with negative strides in
/// any order.
std::vector<std::size_t> memory_order(const Tensor& tensor) {
  std::vector<std::size_t> order(tensor.shape.elements);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tensor.place(a) < tensor.place(b); });
  return order;
}
void check_reads(Tensor& tensor) {
  Expected expected;
  std::size_t nans = 0, infs = 0, first = 0, position = 0;
  long double squares = 0.0L;
  for (const std::size_t i : memory_order(tensor)) {
    const double number = tensor.dtype.number(tensor.at(i));
    if (expected.finite) first = position;
    ++position;
    expected.add(number);
    nans += std::isnan(number) ? 1 : 0;
    infs += std::isinf(number) ? 1 : 0;
    squares += static_cast<long double>(number) * static_cast<long double>(number);
  }
  const headroom::GradientNorm measured = headroom::measure(tensor.view());
  expect(expected.is(measured) && headroom::all_finite(tensor.view()) == expected.finite);
  const auto found = headroom::find_nonfinite(tensor.view());
  expect(found.has_value() != expected.finite);
  if (found) {
    const bool is_forward = tensor.strides[0] > 0 && tensor.strides[1] > 0 && tensor.strides[2] > 0;
    expect(found->nan_count == nans && found->inf_count == infs &&
           (!is_forward || found->index == first));
  } else if (expected.max_abs == 0.0 ||
             (expected.max_abs > 0x1p-500 && expected.max_abs < 0x1p500)) {
    const auto norm = static_cast<double>(std::sqrt(squares));
    expect(std::fabs(measured.norm - norm) <= 0x1p-21 * norm);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<headroom::Isa> isas = headroom::available_isas();
  support::set_bytes(data, size);
  headroom::force_isa(isas[below(isas.size())]);
  const auto verb = static_cast<Verb>(below(6));
  const Dtype& in = dtypes[below(6)];
  const Dtype& out = dtypes[verb == Verb::quantize ? 4 + below(2) : below(6)];
  float factor = headroom::detail::bit_cast<float>(any_bits<std::uint32_t>());
  if (one_in(4)) factor = std::ldexp(1.0F, static_cast<int>(below(256)) - 128);
  const Shape shape;
  Tensor from(shape, in), to(shape, out);
  if (!is_allowed(verb, factor)) {
    check_refused(verb, from, to, factor);
    return 0;
  }
  check_reads(from);
  check_verb(verb, from, to, factor);
  // A leaf may be its own destination
  if (verb != Verb::quantize) check_verb(verb, to, to, factor);
  return 0;
}
