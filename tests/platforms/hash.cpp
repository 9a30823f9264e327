// Prints hashes of what headroom computes: one for each part, and one for all. They are the same on
// every platform. Each part is computed on all instruction sets, which must agree. Without
// exceptions the last part is left out.

#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/quantize.hpp>
#include <headroom/state/text.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

using headroom::bfloat16;
using headroom::half;

namespace {

/// FNV-1a of integers, the lowest byte first, whatever the byte order of the CPU is.
class Hash {
 public:
  void add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte)
      state_ = (state_ ^ (value >> 8 * byte & 0xFFU)) * 0x100000001B3U;
  }
  void add_text(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325U;
};

template <class T>
std::uint64_t bits_of(const T& element) {
  using Format = typename headroom::dtype_traits<T>::format;
  typename Format::bits_type bits;
  static_assert(sizeof bits == sizeof element);
  std::memcpy(&bits, &element, sizeof bits);
  constexpr unsigned infinities = Format::has_infinity ? 1 : 0;
  const bool is_nan = (bits & Format::abs_mask) > Format::largest_finite_bits + infinities;
  return is_nan ? ~std::uint64_t{0} : bits;  // CPUs differ in payloads of NaNs
}
template <class Tree>
void add_tree(Hash& hash, const Tree& tree) {
  headroom::for_each_leaf_with_path(tree, [&](const std::string& path, const auto& leaf) {
    hash.add_text(path);
    if constexpr (headroom::is_dtype_v<std::decay_t<decltype(leaf)>>) {
      hash.add(bits_of(leaf));
    } else {
      for (const auto& element : leaf) hash.add(bits_of(element));
    }
  });
}
void add_report(Hash& hash, const headroom::GradientReport& report) {
  hash.add(report.finite ? 1 : 0);
  hash.add(bits_of(report.max_abs));
}
void add_norm(Hash& hash, const headroom::GradientNorm& norm) {
  add_report(hash, norm);
  hash.add(bits_of(norm.norm));
}

template <class T>
T from_bits(std::uint64_t source) {
  const auto bits = static_cast<typename headroom::dtype_traits<T>::format::bits_type>(source);
  T element;
  std::memcpy(static_cast<void*>(&element), &bits, sizeof element);
  return element;
}
/// Elements of all magnitudes, Inf and NaN among them.
template <class T>
std::vector<T> any_elements(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> elements;
  for (std::size_t i = 0; i < size; ++i) elements.push_back(from_bits<T>(random()));
  return elements;
}
/// Elements of magnitude 2^-30 to 2^2 for float, and about zero to 2^2 for 16-bit formats.
template <class T>
std::vector<T> gradients(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> elements;
  for (std::size_t i = 0; i < size; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    elements.push_back(static_cast<T>(
        from_bits<float>((bits & 0x807FFFFFU) | (97U + (bits >> 23U & 0xFFU) % 32U) << 23U)));
  }
  return elements;
}
struct Layers {
  std::vector<half> halves = gradients<half>(1000, 1);
  std::map<std::string, std::vector<float>> named = {{"first", gradients<float>(777, 2)},
                                                     {"second", gradients<float>(65, 3)}};
  std::tuple<std::vector<bfloat16>, std::vector<double>, int> others{gradients<bfloat16>(513, 4),
                                                                     gradients<double>(31, 5), 7};
};

HEADROOM_TREE(Layers, halves, named, others)

template <class To, class From>
void convert(Hash& hash, const std::vector<From>& elements) {
  add_tree(hash, headroom::cast<To>(elements));
  add_tree(hash, headroom::cast<To>(elements, headroom::saturate));
  if constexpr (std::is_constructible_v<To, From>) {
    for (const From& element : elements) hash.add(bits_of(To(element)));
  }
}
template <class From>
void convert_to_all(Hash& hash, const std::vector<From>& elements) {
  convert<half>(hash, elements);
  convert<bfloat16>(hash, elements);
  convert<headroom::cbfloat16>(hash, elements);
  convert<headroom::float8_e4m3>(hash, elements);
  convert<headroom::float8_e5m2>(hash, elements);
  convert<float>(hash, elements);
  convert<double>(hash, elements);
}
template <class T>
std::vector<T> all_patterns() {
  std::vector<T> elements;
  for (std::uint32_t bits = 0; bits >> 8 * sizeof(T) == 0; ++bits)
    elements.push_back(from_bits<T>(bits));
  return elements;
}
void conversions(Hash& hash) {
  convert_to_all(hash, all_patterns<half>());
  convert_to_all(hash, all_patterns<bfloat16>());
  convert_to_all(hash, all_patterns<headroom::cbfloat16>());
  convert_to_all(hash, all_patterns<headroom::float8_e4m3>());
  convert_to_all(hash, all_patterns<headroom::float8_e5m2>());
  convert_to_all(hash, any_elements<float>(50000, 1));
  convert_to_all(hash, any_elements<double>(50000, 2));
  convert_to_all(hash, gradients<float>(50000, 3));
  std::vector<float> ties;  // between neighbours of fp16 and bf16
  for (std::uint32_t high = 0; high < 0x10000U; high += 3) {
    for (const std::uint32_t low : {0x7FFFU, 0x8000U, 0x8001U})
      ties.push_back(from_bits<float>(high << 16U | low));
    ties.push_back(from_bits<float>((high << 16U | 0x1000U) & 0xFFFFF000U));
  }
  convert_to_all(hash, ties);
}

template <class T>
void verbs_on(Hash& hash, const headroom::Executor& executor, std::size_t size) {
  for (const auto& elements : {gradients<T>(size, 1), any_elements<T>(size, 2)}) {
    for (const float factor : {1.0F, 1024.0F, 0x1p-126F, 3.1415927F, 0x1.fffffep125F}) {
      auto copy = headroom::scale(elements, factor, executor);
      add_tree(hash, copy);
      add_report(
          hash, headroom::unscale_in_place<headroom::allow_fp16_gradients>(copy, factor, executor));
      add_tree(hash, copy);
      auto [wide, report] = headroom::unscale<float>(elements, factor, executor);
      add_report(hash, report);
      add_report(hash, headroom::accumulate_into(elements, wide, 0.7F, executor));
      add_tree(hash, wide);
    }
    hash.add(headroom::all_finite(elements, executor) ? 1 : 0);
    if (const auto found = headroom::find_nonfinite(elements)) {
      hash.add(found->index);
      hash.add(found->nan_count);
      hash.add(found->inf_count);
    }
  }
}
void verbs(Hash& hash) {
  const auto on_all_types = [&](const headroom::Executor& executor, std::size_t size) {
    verbs_on<half>(hash, executor, size);
    verbs_on<bfloat16>(hash, executor, size);
    verbs_on<float>(hash, executor, size);
    verbs_on<double>(hash, executor, size);
  };
  for (const std::size_t size : {1U, 15U, 64U, 1000U}) on_all_types(headroom::sequential, size);
  verbs_on<half>(hash, headroom::parallel(3), 600000);  // enough for two threads
  Layers layers;
  headroom::scale_in_place(layers, 100.0F);
  add_tree(hash, layers);
}

void norms(Hash& hash) {
  Layers layers;
  add_norm(hash, headroom::measure(layers));
  hash.add(bits_of(headroom::global_norm(layers)));
  add_norm(hash, headroom::clip_by_global_norm(layers, 1.0));
  add_norm(hash,
           headroom::unscale_and_clip_in_place<headroom::allow_fp16_gradients>(layers, 8.0F, 0.01));
  add_tree(hash, layers);
  const auto many = gradients<bfloat16>(600000, 6);
  add_norm(hash, headroom::measure(many, headroom::parallel(3)));
  add_norm(hash, headroom::measure(many));
  add_norm(hash, headroom::measure(any_elements<half>(100, 7)));
  for (const float tiny : {0x1p-149F, 0x1p-100F, 0x1p100F}) {
    add_norm(hash, headroom::measure(std::vector<float>(1000, tiny)));
    add_norm(hash,
             headroom::measure(std::vector<double>(1000, static_cast<double>(tiny) * 0x1p800)));
  }
}

template <class To>
void quantize(Hash& hash) {
  const std::vector<std::vector<float>> tree = {gradients<float>(1000, 1),
                                                gradients<float>(333, 2)};
  headroom::TensorScales<To> scales(tree);
  for (int step = 0; step < 3; ++step) {
    add_tree(hash, scales.quantize(tree).codes);
    scales.update();
    for (const float scale : scales.scales()) hash.add(bits_of(scale));
  }
  hash.add_text(headroom::to_text(scales.state_dict()));
  using headroom::MxScale;
  for (const MxScale rule : {MxScale::floor, MxScale::rceil, MxScale::ceil, MxScale::even}) {
    const auto source = gradients<bfloat16>(1050, 3);
    std::vector<To> codes(source.size());
    std::vector<headroom::e8m0> block_scales((source.size() + 31) / 32);
    add_report(hash, headroom::quantize_blocks_into(source, codes, block_scales, {1, 32},
                                                    headroom::MxScaling{rule}));
    std::vector<float> again(source.size());
    headroom::dequantize_blocks_into(codes, block_scales, again, {1, 32});
    add_tree(hash, codes);
    add_tree(hash, again);
  }
}
void fp8(Hash& hash) {
  quantize<headroom::float8_e4m3>(hash);
  quantize<headroom::float8_e5m2>(hash);
}

void policies(Hash& hash) {
  std::mt19937_64 random(1);
  for (const std::string& name : headroom::loss_scale_names()) {
    // "constant" has no default
    headroom::AnyLossScale policy = headroom::ConstantLossScale(32768.0F);
    if (name != "constant") policy = headroom::make_loss_scale(name);
    for (int step = 0; step < 5000; ++step) {
      const bool finite = random() % 100 != 0;
      const double max_abs =
          static_cast<double>(from_bits<float>(static_cast<std::uint32_t>(random() % 0x47000000U)));
      policy = policy.adjust(headroom::GradientReport{
          finite, finite ? max_abs : from_bits<double>(0x7FF0000000000000U)});
      hash.add(bits_of(policy.loss_scale()));
      if (step % 500 != 0) continue;
      hash.add_text(policy.policy_name());
      hash.add(policy.state_digest());
      const std::string text = headroom::to_text(policy.state_dict());
      hash.add_text(text);
      policy = headroom::AnyLossScale::from_state_dict(headroom::from_text(text));
    }
  }
}

struct Optimizer {
  std::vector<float> weights = std::vector<float>(1000, 1.0F), grads;

  std::vector<float>& gradients() { return grads; }
  void step() {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const volatile float change = 0.125F * grads[i];  // volatile: no fused multiply-add
      weights[i] -= change;
    }
  }
};
template <class Scaler>
void add_result(Hash& hash, const Scaler& scaler, const headroom::StepResult<void>& result) {
  add_report(hash, result.report);
  hash.add(result.skipped ? 1 : 0);
  hash.add(bits_of(result.loss_scale));
  hash.add(bits_of(scaler.get_scale()));
  if (!result.nonfinite) return;
  hash.add_text(result.nonfinite->path);
  hash.add(result.nonfinite->index);
}
void training(Hash& hash) {
  Optimizer optimizer;
  headroom::GradScaler<> scaler(1024.0, 3.0, 0.3, 5);
  headroom::History history;
  for (unsigned step = 0; step < 200; ++step) {
    optimizer.grads = headroom::scale(gradients<float>(1000, step), scaler.scale(1.0F));
    if (step % 23 == 7) optimizer.grads[step] = from_bits<float>(0x7F800000U);
    if (step % 3 == 0) add_norm(hash, scaler.unscale_and_clip_(optimizer, 0.5));
    const auto result = scaler.step(optimizer);
    scaler.update();
    add_result(hash, scaler, result);
    history.record(result);
  }
  hash.add_text(headroom::to_text(scaler.state_dict()));
  hash.add_text(history.csv());
  hash.add_text(history.explanation());
  add_tree(hash, optimizer.weights);
  hash.add_text(headroom::histogram_text(headroom::exponent_histogram(optimizer.grads)));
}

#if HEADROOM_EXCEPTIONS
template <class Call>
void add_error(Hash& hash, Call call) {
  try {
    call();
    hash.add_text("no error");
  } catch (const std::logic_error& error) {  // std::invalid_argument, too
    hash.add_text(error.what());
  }
}
void exceptions(Hash& hash) {
  std::vector<float> elements(10, 1.0F), others(9);
  std::vector<std::vector<float>> tree = {elements}, other_tree = {others};
  add_error(hash, [&] { (void)headroom::unscale_into(elements, others, 2.0F); });
  add_error(hash, [&] { headroom::cast_into(tree, other_tree); });
  add_error(hash, [&] { (void)headroom::scale(elements, 0.0F); });
  add_error(hash, [&] { (void)headroom::unscale<float>(elements, 0x1p-140F); });
  add_error(hash, [&] { (void)headroom::clip_by_global_norm(elements, -0.1); });
  add_error(hash, [&] { (void)headroom::parallel(0); });
  add_error(hash, [&] { (void)headroom::ConstantLossScale(1e-45F); });
  add_error(hash, [&] { (void)headroom::presets::torch(1e300, 0.1, 12345.678, -3); });
  add_error(hash, [&] { (void)headroom::make_loss_scale("unknown"); });
  add_error(hash, [&] { (void)headroom::from_text("growth = 0x1p2000\n"); });
  add_error(hash, [&] {
    (void)headroom::DynamicLossScale::from_state_dict({{"version", 1}, {"loss_scale", 1e-300}});
  });
  add_error(hash, [&] { headroom::GradScaler<>().update(); });
  const auto throws = [&](std::size_t task) {
    if (task == 2) headroom::force_isa(headroom::Isa(77));
  };
  try {
    headroom::parallel(4).run(4, throws);
  } catch (const std::invalid_argument& error) {  // its text lists the instruction sets
    hash.add_text(std::string_view(error.what()).substr(0, 28));
  }
}
#endif

/// Prints the hash of a part, and adds it to that of all.
bool run(const char* name, void (*part)(Hash&), Hash& all) {
  std::uint64_t first = 0;
  bool equal = true;
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    Hash hash;
    part(hash);
    if (isa == headroom::Isa::portable) first = hash.value();
    equal = equal && hash.value() == first;
    if (hash.value() != first) std::printf("%s on %s differs\n", name, headroom::to_string(isa));
  }
  std::printf("%-11s %08lx%08lx\n", name, static_cast<unsigned long>(first >> 32U),
              static_cast<unsigned long>(first & 0xFFFFFFFFU));
  all.add(first);
  return equal;
}

}  // namespace

int main() {
  Hash all;
  bool equal = run("conversions", conversions, all);
  equal = run("verbs", verbs, all) && equal;
  equal = run("norms", norms, all) && equal;
  equal = run("fp8", fp8, all) && equal;
  equal = run("policies", policies, all) && equal;
  equal = run("training", training, all) && equal;
  std::printf("%-11s %08lx%08lx\n", "all", static_cast<unsigned long>(all.value() >> 32U),
              static_cast<unsigned long>(all.value() & 0xFFFFFFFFU));
#if HEADROOM_EXCEPTIONS
  equal = run("exceptions", exceptions, all) && equal;
#endif
  return equal ? 0 : 1;
}
