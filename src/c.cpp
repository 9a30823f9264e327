// headroom::c: the C interface, over the C++ one.
#define HEADROOM_C_BUILD
#include <headroom.h>

#include <headroom/fp8/quantize.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using headroom::any_tensor, headroom::ParallelExecutor;
using headroom::detail::throw_invalid_argument, headroom::detail::throw_logic_error;
using std::to_string;

// ---- errors ----

thread_local char last_error[1024];  // no std::string, whose destructor would outlive a library that is unloaded

headroom_status fail(headroom_status status, const char* what) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", what);
  return status;
}
/// The status of the exception that is being handled.
[[gnu::cold, gnu::noinline]] headroom_status fail_by_exception() noexcept {
  try {
    throw;
  } catch (const std::invalid_argument& error) {
    return fail(HEADROOM_INVALID_ARGUMENT, error.what());
  } catch (const std::logic_error& error) {
    return fail(HEADROOM_LOGIC_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(HEADROOM_OUT_OF_MEMORY, "headroom: out of memory");
  } catch (const std::exception& error) {
    return fail(HEADROOM_RUNTIME_ERROR, error.what());
  } catch (...) {
    return fail(HEADROOM_RUNTIME_ERROR, "headroom: an exception that is no std::exception");
  }
}
template <class F>
headroom_status guarded(const F& f) noexcept {
  try {
    f();
    return HEADROOM_OK;
  } catch (...) {
    return fail_by_exception();
  }
}

// ---- arguments ----

void check_not_null(const char* name, const void* argument) {
  if (argument == nullptr) throw_invalid_argument({name, " is NULL"});
}
ParallelExecutor executor_of(int32_t threads) {
  if (threads < 0) throw_invalid_argument({"threads is ", to_string(threads), "; it must be 0 or more"});
  return ParallelExecutor(threads == 0 ? 1 : threads);
}

/// An out-struct may be NULL, or shorter than ours, as in an older header.
template <class Struct>
void check_out(const char* name, const Struct* out) {
  if (out == nullptr || out->struct_size >= sizeof out->struct_size) return;
  throw_invalid_argument({name, "->struct_size is ", to_string(out->struct_size), "; set it to sizeof *", name});
}
template <class Struct>
void write(Struct* out, Struct value) noexcept {
  if (out == nullptr) return;
  value.struct_size = std::min(out->struct_size, static_cast<uint32_t>(sizeof value));
  std::memcpy(out, &value, value.struct_size);
}

/// Dtypes as bits: 1 << (place_of(dtype) + 2). The others of a list get the message `otherwise`.
struct Dtypes {
  unsigned bits;
  const char* otherwise;
};
constexpr Dtypes all_dtypes{0xFE, "which is not supported"};
constexpr Dtypes floats{0xFC, "which is not floating-point"};
constexpr Dtypes fp8{0xC0, "which is not HEADROOM_FLOAT8_E4M3FN or HEADROOM_FLOAT8_E5M2"};
constexpr Dtypes wide{0x36, "and would become 0 in place: use headroom_grad_scaler_step_into"};  // and integers

[[nodiscard]] unsigned bit_of(headroom_dtype dtype) noexcept {
  return 1U << static_cast<unsigned>(headroom::detail::place_of(static_cast<headroom::dtype_code>(dtype)) + 2);
}
[[nodiscard]] any_tensor to_any(const headroom_tensor& tensor) noexcept {
  any_tensor any;
  any.data = tensor.data;
  any.size = static_cast<std::size_t>(tensor.size);
  any.dtype = static_cast<headroom::dtype_code>(tensor.dtype);
  any.ndim = tensor.ndim;
  any.shape = tensor.shape;
  any.strides = tensor.strides;
  return any;
}

constexpr uint64_t most_elements = uint64_t{1} << 60;

/// Throws std::invalid_argument, naming the argument, the tensor and the value, if the tensor cannot be used.
[[gnu::noinline]] void check_tensor(const char* name, std::size_t i, const headroom_tensor& tensor, Dtypes allowed,
                                    bool is_written) {
  const auto reject = [&](std::initializer_list<std::string_view> what) {
    throw_invalid_argument({name, "[", to_string(i), "] has ", headroom::detail::concat(what)});
  };
  const unsigned bit = bit_of(tensor.dtype);
  if ((allowed.bits & bit) == 0) {
    reject({"the dtype ", to_string(tensor.dtype >> 8U), " << 8 | ", to_string(tensor.dtype & 0xFFU), ", ",
            (all_dtypes.bits & bit) == 0 ? all_dtypes.otherwise : allowed.otherwise});
  }
  if ((floats.bits & bit) == 0) return;
  if (tensor.ndim < 0 || tensor.ndim > 16) reject({"ndim ", to_string(tensor.ndim), "; it must be in [0, 16]"});
  if (tensor.ndim != 0 && tensor.shape == nullptr) reject({"ndim ", to_string(tensor.ndim), " and a shape of NULL"});
  uint64_t size = tensor.ndim == 0 ? tensor.size : 1;
  for (int32_t k = 0; k < tensor.ndim; ++k) {
    const int64_t length = tensor.shape[k];
    if (length < 0) reject({"shape[", to_string(k), "] ", to_string(length), "; it must be 0 or more"});
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(length), &size)) size = ~uint64_t{0};
  }
  if (size > most_elements) reject({"more than 2^60 elements"});
  if (tensor.size != 0 && tensor.size != size)
    reject({"size ", to_string(tensor.size), ", and a shape of ", to_string(size), " elements"});
  if (size != 0 && tensor.data == nullptr) reject({"size ", to_string(size), " and data of NULL"});
  if (size == 0 || !is_written) return;
  const headroom::Layout layout = headroom::tensor_traits<any_tensor>::layout(to_any(tensor));
  if (headroom::detail::LoopNest(layout, layout).repeats_elements()) reject({"strides that lead to some elements twice"});
}
void check_tensors(const char* name, const headroom_tensor* tensors, std::size_t n, Dtypes allowed, bool is_written) {
  if (n != 0 && tensors == nullptr) throw_invalid_argument({name, " is NULL, and n is ", to_string(n)});
  for (std::size_t i = 0; i < n; ++i) {
    const headroom_tensor& tensor = tensors[i];
    const bool is_good = tensor.ndim == 0 && tensor.data != nullptr && tensor.size <= most_elements &&
                         (allowed.bits & bit_of(tensor.dtype)) != 0;
    if (!is_good) check_tensor(name, i, tensor, allowed, is_written);
  }
}

// ---- trees ----

/// The destinations of headroom_quantize.
struct fp8_tensor : any_tensor {
  fp8_tensor() = default;
  explicit fp8_tensor(const any_tensor& tensor) noexcept : any_tensor(tensor) {}
};

/// The tensors of the caller. A walk makes an any_tensor when it comes to it.
template <class Tensor = any_tensor>
struct List {
  struct Element {
    Tensor tensor;
    Tensor& operator*() noexcept { return tensor; }
  };
  struct Iterator {
    const headroom_tensor* at;
    Tensor tensor{};

    Tensor& operator*() noexcept { return tensor = Tensor(to_any(*at)); }
    Iterator& operator++() noexcept { return ++at, *this; }
    Element operator++(int) noexcept { return {Tensor(to_any(*at++))}; }
    bool operator!=(const headroom_tensor* end) const noexcept { return at != end; }
  };

  const headroom_tensor* first = nullptr;
  std::size_t n = 0;

  [[nodiscard]] Iterator begin() const noexcept { return {first}; }
  [[nodiscard]] const headroom_tensor* end() const noexcept { return first + n; }
  [[nodiscard]] std::size_t size() const noexcept { return n; }
};

// One for each name of an argument, which begins the paths in messages: from[2].
struct Tensors {
  List<> tensors;
  HEADROOM_TREE(Tensors, tensors)
};
struct Source {
  List<> from;
  HEADROOM_TREE(Source, from)
};
template <class Tensor = any_tensor>
struct Destination {
  List<Tensor> to;
  HEADROOM_TREE(Destination, to)
};
struct Gradients {
  List<> grads;
  HEADROOM_TREE(Gradients, grads)
};

/// The gradients of an optimizer, during a call, and what has been done to them in this iteration. Those of a StepInto are
/// unscaled from `from` into `to`.
struct StepInto {
  List<> from, to;
  bool is_unscaled = false, is_stepped = false;
  HEADROOM_TREE(StepInto, from)
};
/// With the same address, by which a GradScaler knows an optimizer.
struct StepInPlace : StepInto {};

// ---- results ----

headroom_report to_c(const headroom::GradientReport& report, double norm = -1.0) noexcept {
  return {sizeof(headroom_report), report.finite ? 1 : 0, report.max_abs, norm};
}
headroom_report to_c(const headroom::GradientNorm& report) noexcept { return to_c(report, report.norm); }
headroom_place to_c(const std::optional<headroom::NonFinite>& found) noexcept {
  if (!found) return {sizeof(headroom_place), 0, 0, 0, 0, 0};
  const auto tensor = std::strtoull(std::strchr(found->path.c_str(), '[') + 1, nullptr, 10);
  return {sizeof(headroom_place), found->kind == headroom::NonFiniteKind::nan ? 1 : 0, tensor, found->index, found->nan_count,
          found->inf_count};
}
headroom_step to_c(const headroom::StepResult<void>& result) noexcept {
  return {sizeof(headroom_step), result.skipped ? 1 : 0, static_cast<int32_t>(result.reason),
          result.loss_scale,     to_c(result.report),    to_c(result.nonfinite)};
}
void write_text(const std::string& value, char* text, size_t* size) {
  const std::size_t needed = value.size() + 1;
  if (text != nullptr && *size < needed)
    throw_invalid_argument({"size is ", to_string(*size), "; it must be ", to_string(needed)});
  if (text != nullptr) std::memcpy(text, value.c_str(), needed);
  *size = needed;
}

// ---- verbs ----

/// Calls verb(executor, tree), which returns a report.
template <class Verb>
headroom_status run(const headroom_tensor* tensors, std::size_t n, bool writes, int32_t threads, headroom_report* report,
                    const Verb& verb) noexcept {
  return guarded([&] {
    check_out("report", report);
    const ParallelExecutor executor = executor_of(threads);
    check_tensors("tensors", tensors, n, all_dtypes, writes);
    Tensors tree{{tensors, n}};
    write(report, to_c(verb(executor, tree)));
  });
}
/// Calls verb(executor, source, destination).
template <class Verb>
headroom_status run_into(const headroom_tensor* from, const headroom_tensor* to, std::size_t n, int32_t threads,
                         headroom_report* report, const Verb& verb) noexcept {
  return guarded([&] {
    check_out("report", report);
    const ParallelExecutor executor = executor_of(threads);
    check_tensors("from", from, n, all_dtypes, false);
    check_tensors("to", to, n, all_dtypes, true);
    const Source source{{from, n}};
    Destination<> destination{{to, n}};
    write(report, to_c(verb(executor, source, destination)));
  });
}

[[nodiscard]] headroom::span<const float> factors_of(const char* name, const float* factors, std::size_t n) {
  if (n != 0) check_not_null(name, factors);
  return {factors, n};
}

}  // namespace

template <class Tensor>
struct headroom::tree_traits<List<Tensor>> {
  static constexpr branch_kind kind = branch_kind::sequence;
};
template <>
struct headroom::tensor_traits<fp8_tensor> : tensor_traits<any_tensor> {};
template <>
struct headroom::tree_traits<fp8_tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;
  template <class F>
  static void with_view(const any_tensor& tensor, F&& f) {
    if (tensor.dtype == dtype_code::fp8_e4m3) return f(any_view<float8_e4m3>{tensor});
    f(any_view<float8_e5m2>{tensor});
  }
};

template <>
struct headroom::optimizer_traits<StepInPlace> {
  static Gradients gradients(const StepInPlace& optimizer) noexcept { return {optimizer.from}; }
  static void step(StepInPlace&) noexcept {}
};
template <>
struct headroom::optimizer_traits<StepInto> {
  static constexpr bool allow_fp16_gradients = true;  // they are not unscaled in place
  static StepInto& gradients(StepInto& optimizer) noexcept { return optimizer; }
  static void step(StepInto&) noexcept {}

  static GradientReport unscale(const ParallelExecutor& executor, const StepInto& lists, float loss_scale) {
    Destination<> destination{lists.to};
    return unscale_into(executor, Source{lists.from}, destination, loss_scale);
  }
  /// Called instead of `unscale` if the loss scale is 1.
  static GradientNorm measure(const ParallelExecutor& executor, const StepInto& lists) {
    return {unscale(executor, lists, 1.0F), 0.0};
  }
  /// Not called, because nothing is clipped.
  static GradientReport scale(const ParallelExecutor&, StepInto&, double) noexcept { return {}; }
  /// In `to` if unscaling by a scale below 1 has overflowed.
  static std::optional<NonFinite> find_nonfinite(const ParallelExecutor& executor, const StepInto& lists) {
    const auto found = headroom::find_nonfinite(executor, Source{lists.from});
    return found ? found : headroom::find_nonfinite(executor, Destination<>{lists.to});
  }
};

struct headroom_loss_scale {
  headroom::AnyLossScale policy;
};
struct headroom_grad_scaler {
  headroom::GradScaler<headroom::AnyLossScale> scaler;
  std::map<uint64_t, StepInPlace> optimizers{};  // of this iteration

  /// A GradScaler identifies a stepped optimizer by its first gradient, too. Here the id decides.
  StepInPlace& optimizer(const char* call, bool unscales, uint64_t id, List<> from, List<> to = {}) {
    StepInPlace& found = optimizers[id];
    if (found.is_stepped || (unscales && found.is_unscaled)) {
      throw_logic_error({call, ": optimizer ", to_string(id), " has been ", found.is_stepped ? "stepped" : "unscaled",
                         " since the last update; ",
                         found.is_stepped
                             ? "call headroom_grad_scaler_update or headroom_grad_scaler_abandon in every iteration"
                             : "call headroom_grad_scaler_step"});
    }
    found.from = from;
    found.to = to;
    return found;
  }
};

namespace {

/// Unscales in place by unscale(scaler, optimizer), which returns a report.
template <class Unscale>
headroom_status unscale_optimizer(headroom_grad_scaler* scaler, uint64_t id, const headroom_tensor* grads, std::size_t n,
                                  headroom_report* report, const Unscale& unscale) noexcept {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_out("report", report);
    check_tensors("grads", grads, n, wide, true);
    StepInPlace& optimizer = scaler->optimizer("headroom_grad_scaler_unscale", true, id, {grads, n});
    const headroom_report found = to_c(unscale(scaler->scaler, optimizer));
    optimizer.is_unscaled = true;
    write(report, found);
  });
}

/// A reducer in C++ may throw. Any of its exceptions is a runtime error.
void call_reducer(headroom_reducer reducer, void* context, int32_t* finite, headroom::GradientSums& sums, uint64_t digest) {
  headroom_status status = HEADROOM_OK;
  try {
    status = reducer(context, finite, &sums.max_abs, &sums.sum_of_squares, digest);
  } catch (const std::exception& error) {
    throw std::runtime_error(headroom::detail::concat({"headroom: the reducer has thrown: ", error.what()}));
  }
  if (status != HEADROOM_OK) throw std::runtime_error("headroom: the reducer has returned " + to_string(status));
}

}  // namespace

// ---- the interface ----

const char* headroom_last_error(void) { return last_error; }
const char* headroom_version(void) {
#define HEADROOM_DETAIL_TEXT(major, minor, patch) #major "." #minor "." #patch
#define HEADROOM_DETAIL_VERSION(...) HEADROOM_DETAIL_TEXT(__VA_ARGS__)
  return HEADROOM_DETAIL_VERSION(HEADROOM_VERSION_MAJOR, HEADROOM_VERSION_MINOR, HEADROOM_VERSION_PATCH);
}
uint32_t headroom_abi(void) { return HEADROOM_ABI; }

headroom_status headroom_from_dlpack(const void* dl_tensor, headroom_tensor* out) {
  struct DLTensor {
    void* data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;
    uint64_t byte_offset;
  };
  return guarded([&] {
    check_not_null("dl_tensor", dl_tensor);
    check_not_null("out", out);
    const auto& tensor = *static_cast<const DLTensor*>(dl_tensor);
    if (tensor.device_type != 1 && tensor.device_type != 3 && tensor.device_type != 11)
      throw_invalid_argument({"dl_tensor is on a device of type ", to_string(tensor.device_type), ", not in host memory"});
    if (tensor.lanes != 1) throw_invalid_argument({"dl_tensor has ", to_string(tensor.lanes), " lanes; it must have 1"});
    void* const first = tensor.data == nullptr ? nullptr : static_cast<unsigned char*>(tensor.data) + tensor.byte_offset;
    *out = {first,
            tensor.ndim == 0 ? 1U : 0U,
            static_cast<headroom_dtype>(tensor.code << 8U | tensor.bits),
            tensor.ndim,
            tensor.shape,
            tensor.strides};
  });
}

headroom_status headroom_scale(const headroom_tensor* tensors, size_t n, double factor, int32_t threads) {
  return run(tensors, n, true, threads, nullptr, [&](const auto& executor, auto& tree) {
    headroom::scale_in_place(executor, tree, factor);
    return headroom::GradientReport();
  });
}
headroom_status headroom_unscale(const headroom_tensor* tensors, size_t n, float loss_scale, int32_t threads,
                                 headroom_report* report) {
  return run(tensors, n, true, threads, report,
             [&](const auto& executor, auto& tree) { return headroom::unscale_in_place(executor, tree, loss_scale); });
}
headroom_status headroom_unscale_into(const headroom_tensor* from, const headroom_tensor* to, size_t n, float loss_scale,
                                      int32_t threads, headroom_report* report) {
  return run_into(from, to, n, threads, report, [&](const auto& executor, const auto& source, auto& destination) {
    return headroom::unscale_into(executor, source, destination, loss_scale);
  });
}
headroom_status headroom_accumulate_into(const headroom_tensor* from, const headroom_tensor* to, size_t n, float loss_scale,
                                         int32_t threads, headroom_report* report) {
  return run_into(from, to, n, threads, report, [&](const auto& executor, const auto& source, auto& destination) {
    return headroom::accumulate_into(executor, source, destination, loss_scale);
  });
}
headroom_status headroom_unscale_and_clip(const headroom_tensor* tensors, size_t n, float loss_scale, double max_norm,
                                          int32_t threads, headroom_report* report) {
  return run(tensors, n, true, threads, report, [&](const auto& executor, auto& tree) {
    return headroom::unscale_and_clip_in_place(executor, tree, loss_scale, max_norm);
  });
}
headroom_status headroom_clip(const headroom_tensor* tensors, size_t n, double max_norm, int32_t threads,
                              headroom_report* report) {
  return run(tensors, n, true, threads, report,
             [&](const auto& executor, auto& tree) { return headroom::clip_by_global_norm(executor, tree, max_norm); });
}
headroom_status headroom_measure(const headroom_tensor* tensors, size_t n, int32_t threads, headroom_report* report) {
  return run(tensors, n, false, threads, report,
             [](const auto& executor, const auto& tree) { return headroom::measure(executor, tree); });
}
headroom_status headroom_cast(const headroom_tensor* from, const headroom_tensor* to, size_t n, int32_t saturate,
                              int32_t threads) {
  return run_into(from, to, n, threads, nullptr, [&](const auto& executor, const auto& source, auto& destination) {
    if (saturate != 0) headroom::cast_into(executor, source, destination, headroom::saturate);
    if (saturate == 0) headroom::cast_into(executor, source, destination);
    return headroom::GradientReport();
  });
}
headroom_status headroom_find_nonfinite(const headroom_tensor* tensors, size_t n, int32_t threads, headroom_place* place,
                                        int32_t* found) {
  return guarded([&] {
    check_out("place", place);
    check_not_null("found", found);
    const ParallelExecutor executor = executor_of(threads);
    check_tensors("tensors", tensors, n, all_dtypes, false);
    const auto first = headroom::find_nonfinite(executor, Tensors{{tensors, n}});
    write(place, to_c(first));
    *found = first ? 1 : 0;
  });
}

headroom_status headroom_quantize(const headroom_tensor* from, const headroom_tensor* to, size_t n, const float* scales,
                                  float* max_abs, int32_t threads, headroom_report* report) {
  return guarded([&] {
    check_out("report", report);
    const ParallelExecutor executor = executor_of(threads);
    check_tensors("from", from, n, floats, false);
    check_tensors("to", to, n, fp8, true);
    const auto factors = factors_of("scales", scales, n);
    std::vector<float> unused(max_abs == nullptr ? n : 0);
    const headroom::span<float> maxima(max_abs == nullptr ? unused.data() : max_abs, n);
    Destination<fp8_tensor> destination{{to, n}};
    write(report, to_c(headroom::quantize_into(executor, Source{{from, n}}, destination, factors, maxima)));
  });
}
headroom_status headroom_dequantize(const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                    const float* inverse_scales, int32_t threads) {
  return guarded([&] {
    const ParallelExecutor executor = executor_of(threads);
    check_tensors("from", from, n, floats, false);
    check_tensors("to", to, n, floats, true);
    Destination<> destination{{to, n}};
    headroom::dequantize_into(executor, Source{{from, n}}, destination, factors_of("inverse_scales", inverse_scales, n));
  });
}

headroom_status headroom_loss_scale_make(const char* name, const char* settings, headroom_loss_scale** out) {
  return guarded([&] {
    check_not_null("name", name);
    check_not_null("out", out);
    *out = new headroom_loss_scale{headroom::make_loss_scale(name, headroom::from_text(settings == nullptr ? "" : settings))};
  });
}
void headroom_loss_scale_free(headroom_loss_scale* policy) { delete policy; }
float headroom_loss_scale_get(const headroom_loss_scale* policy) {
  return policy == nullptr ? 1.0F : policy->policy.loss_scale();
}
headroom_status headroom_loss_scale_adjust(headroom_loss_scale* policy, int32_t finite, double max_abs) {
  return guarded([&] {
    check_not_null("policy", policy);
    policy->policy = policy->policy.adjust(headroom::GradientReport{finite != 0, max_abs});
  });
}
headroom_status headroom_loss_scale_save(const headroom_loss_scale* policy, char* text, size_t* size) {
  return guarded([&] {
    check_not_null("policy", policy);
    check_not_null("size", size);
    write_text(headroom::to_text(policy->policy.state_dict()), text, size);
  });
}
headroom_status headroom_loss_scale_load(const char* text, headroom_loss_scale** out) {
  return guarded([&] {
    check_not_null("text", text);
    check_not_null("out", out);
    *out = new headroom_loss_scale{headroom::AnyLossScale::from_state_dict(headroom::from_text(text))};
  });
}

headroom_status headroom_grad_scaler_make(const headroom_loss_scale* policy, headroom_grad_scaler** out) {
  return guarded([&] {
    check_not_null("out", out);
    using Scaler = headroom::GradScaler<headroom::AnyLossScale>;
    *out = new headroom_grad_scaler{Scaler(policy == nullptr ? headroom::presets::torch() : policy->policy)};
  });
}
void headroom_grad_scaler_free(headroom_grad_scaler* scaler) { delete scaler; }
headroom_status headroom_grad_scaler_set_threads(headroom_grad_scaler* scaler, int32_t threads) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    scaler->scaler.set_executor(executor_of(threads));
  });
}
headroom_status headroom_grad_scaler_set_reducer(headroom_grad_scaler* scaler, headroom_reducer reducer, void* context) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    if (reducer == nullptr) return scaler->scaler.set_reducer(nullptr);
    scaler->scaler.set_reducer([=](const headroom::GradientSums& here, uint64_t digest) {
      headroom::GradientSums sums = here;
      int32_t finite = here.finite ? 1 : 0;
      call_reducer(reducer, context, &finite, sums, digest);
      sums.finite = finite != 0;
      return sums;
    });
  });
}
headroom_status headroom_grad_scaler_scale(headroom_grad_scaler* scaler, double loss, double* scaled) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_not_null("scaled", scaled);
    *scaled = scaler->scaler.scale(loss);
  });
}
headroom_status headroom_grad_scaler_unscale(headroom_grad_scaler* scaler, uint64_t optimizer, const headroom_tensor* grads,
                                             size_t n, headroom_report* report) {
  return unscale_optimizer(scaler, optimizer, grads, n, report,
                           [](auto& cpp, StepInPlace& found) { return cpp.unscale_(found); });
}
headroom_status headroom_grad_scaler_unscale_and_clip(headroom_grad_scaler* scaler, uint64_t optimizer,
                                                      const headroom_tensor* grads, size_t n, double max_norm,
                                                      headroom_report* report) {
  return unscale_optimizer(scaler, optimizer, grads, n, report,
                           [&](auto& cpp, StepInPlace& found) { return cpp.unscale_and_clip_(found, max_norm); });
}
headroom_status headroom_grad_scaler_step(headroom_grad_scaler* scaler, uint64_t optimizer, const headroom_tensor* grads,
                                          size_t n, headroom_step* step) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_out("step", step);
    check_tensors("grads", grads, n, wide, true);
    StepInPlace& found = scaler->optimizer("headroom_grad_scaler_step", false, optimizer, {grads, n});
    const headroom_step result = to_c(scaler->scaler.step(found));
    found.is_stepped = true;
    write(step, result);
  });
}
headroom_status headroom_grad_scaler_step_into(headroom_grad_scaler* scaler, uint64_t optimizer, const headroom_tensor* from,
                                               const headroom_tensor* to, size_t n, headroom_step* step) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_out("step", step);
    check_tensors("from", from, n, all_dtypes, false);
    check_tensors("to", to, n, all_dtypes, true);
    const Source source{{from, n}};
    Destination<> destination{{to, n}};
    headroom::detail::Plan plan;  // to find out, before the scaler changes, whether the lists fit
    headroom::detail::make_plan<headroom::detail::UnscaleOps, headroom::detail::Access::into>(plan, source, destination);
    StepInto& found = scaler->optimizer("headroom_grad_scaler_step_into", true, optimizer, {from, n}, {to, n});
    const headroom_step result = to_c(scaler->scaler.step(found));
    found.is_stepped = true;
    write(step, result);
  });
}
headroom_status headroom_grad_scaler_update(headroom_grad_scaler* scaler) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    scaler->scaler.update();
    scaler->optimizers.clear();
  });
}
headroom_status headroom_grad_scaler_abandon(headroom_grad_scaler* scaler) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    scaler->scaler.abandon();
    scaler->optimizers.clear();
  });
}
headroom_status headroom_grad_scaler_save(const headroom_grad_scaler* scaler, char* text, size_t* size) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_not_null("size", size);
    write_text(headroom::to_text(scaler->scaler.state_dict()), text, size);
  });
}
headroom_status headroom_grad_scaler_load(headroom_grad_scaler* scaler, const char* text) {
  return guarded([&] {
    check_not_null("scaler", scaler);
    check_not_null("text", text);
    scaler->scaler.load_state_dict(headroom::from_text(text));
    scaler->optimizers.clear();
  });
}
