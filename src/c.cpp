// headroom::c: the C interface over the C++ one.
#define HEADROOM_C_BUILD
#include <headroom.h>

#include <headroom/adapters/dlpack.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/quantize/quantize.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace headroom;
using detail::throw_invalid_argument;
using std::to_string;
using Status = headroom_status;
using Tensor = headroom_tensor;
using Report = headroom_report;
using Place = headroom_place;
using Step = headroom_step;
using Policy = headroom_loss_scale;
using Scaler = headroom_grad_scaler;

// ---- errors ----

// Has no destructor, so threads may end after the library is unloaded
thread_local char last_error[1024];
Status fail(const std::exception& error) noexcept {
  const bool is_ours = std::strncmp(error.what(), "headroom: ", 10) == 0;
  std::snprintf(last_error, sizeof last_error, "%s%s", is_ours ? "" : "headroom: ", error.what());
  if (dynamic_cast<const std::invalid_argument*>(&error) != nullptr)
    return HEADROOM_INVALID_ARGUMENT;
  if (dynamic_cast<const std::logic_error*>(&error) != nullptr) return HEADROOM_LOGIC_ERROR;
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? HEADROOM_OUT_OF_MEMORY
                                                                : HEADROOM_RUNTIME_ERROR;
}
template <class F>
Status guarded(const F& f) noexcept {
  try {
    f();
    return HEADROOM_OK;
  } catch (const std::exception& error) {
    return fail(error);
  } catch (...) {
    return fail(std::exception());
  }
}

// ---- arguments ----

void check_not_null(const char* name, const void* argument) {
  if (argument == nullptr) throw_invalid_argument({name, " is NULL"});
}
Executor executor_of(int32_t threads) {
  if (threads < 0)
    throw_invalid_argument({"threads is ", to_string(threads), "; it must be 0 or more"});
  return parallel(threads == 0 ? 1 : threads);
}
/// Calls f(*handle).
template <class Handle, class F>
Status with(const char* name, Handle* handle, const F& f) noexcept {
  return guarded([&] {
    check_not_null(name, handle);
    f(*handle);
  });
}
[[gnu::noinline]] any_tensor with_shape(const Tensor& tensor) noexcept {
  const bool is_readable =
      tensor.ndim > 0 && tensor.ndim <= Layout::max_rank && tensor.shape != nullptr;
  const size_t ndim = is_readable ? static_cast<size_t>(tensor.ndim) : 0,
               n_strides = tensor.strides != nullptr ? ndim : 0;
  any_tensor any(tensor.data, static_cast<dtype_code>(tensor.dtype), span(tensor.shape, ndim),
                 span(tensor.strides, n_strides));
  any.ndim = tensor.ndim;
  const bool fits = tensor.size == 0 || tensor.size == any.size;
  if (!fits) any.size = static_cast<size_t>(tensor.size);
  if (!fits && any.obstacle == nullptr)
    any.obstacle = "has a size that is not the product of its shape";
  static_assert(Layout::max_rank == 16, "headroom.h and the next line say 16");
  if (!is_readable) any.obstacle = "has an ndim that is not in [0, 16]";
  if (!is_readable && tensor.ndim > 0 && tensor.shape == nullptr)
    any.obstacle = "has dimensions, but no shape";
  return any;
}
[[gnu::always_inline]] inline any_tensor to_any(const Tensor& tensor) noexcept {
  if (tensor.ndim != 0) return with_shape(tensor);
  return {tensor.data, static_cast<dtype_code>(tensor.dtype), static_cast<size_t>(tensor.size)};
}
/// Out-structs may be NULL, or shorter than here, as in an older header.
template <class Struct>
void check_out(const char* name, const Struct* out) {
  if (out == nullptr || out->struct_size >= sizeof out->struct_size) return;
  throw_invalid_argument(
      {name, "->struct_size is ", to_string(out->struct_size), "; set it to sizeof *", name});
}
template <class Struct>
void write(Struct* out, Struct value) noexcept {
  if (out == nullptr) return;
  value.struct_size =
      out->struct_size < sizeof value ? out->struct_size : static_cast<uint32_t>(sizeof value);
  std::memcpy(out, &value, value.struct_size);
}

// ---- trees ----

/// A list of the caller's tensors.
struct List {
  const Tensor* first = nullptr;
  size_t n = 0;
  const Tensor* begin() const noexcept { return first; }
  const Tensor* end() const noexcept { return first + n; }
  size_t size() const noexcept { return n; }
};

constexpr unsigned bit_of(dtype_code dtype) { return 1U << (detail::dtype_index(dtype) + 1); }
/// The dtypes that a call takes.
enum Dtypes : unsigned {
  all = ~0U,
  floats = all & ~bit_of(dtype_code::int32),
  fp8 = bit_of(dtype_code::fp8_e4m3) | bit_of(dtype_code::fp8_e5m2),
  not_narrow = all & ~fp8 & ~bit_of(dtype_code::fp16)
};
List list_of(const char* name, const Tensor* tensors, size_t n, Dtypes taken = all) {
  if (n != 0 && tensors == nullptr)
    throw_invalid_argument({name, " is NULL, with an n of ", to_string(n)});
  for (size_t i = 0; taken != all && i < n; ++i) {
    const auto dtype = static_cast<dtype_code>(tensors[i].dtype);
    // The walk rejects -2
    if (detail::dtype_index(dtype) < -1 || (taken & bit_of(dtype)) != 0) continue;
    throw_invalid_argument({name, "[", to_string(i), "] ",
                            taken == not_narrow
                                ? "would become 0 in place, use headroom_grad_scaler_step_into"
                                : "has a dtype that this call cannot take",
                            ": ", to_any(tensors[i]).description()});
  }
  return {tensors, n};
}

// Their members begin the paths in messages: from[2].
struct Tensors {
  List tensors;
  HEADROOM_TREE(Tensors, tensors)
};
struct Grads {
  List grads;
  HEADROOM_TREE(Grads, grads)
};
struct From {
  List from;
  HEADROOM_TREE(From, from)
};
struct To {
  List to;
  HEADROOM_TREE(To, to)
};

Report to_c(const GradientReport& report, double norm = -1.0) noexcept {
  return {sizeof(Report), report.finite ? 1 : 0, report.max_abs, norm};
}
Report to_c(const GradientNorm& report) noexcept { return to_c(report, report.norm); }
Place to_c(const std::optional<NonFinite>& found) noexcept {
  if (!found) return {sizeof(Place), 0, 0, 0, 0, 0};
  // `leaf` skips integers
  const uint64_t tensor =
      std::strtoull(found->path.c_str() + found->path.find('[') + 1, nullptr, 10);
  return {sizeof(Place),    found->kind == NonFiniteKind::nan,
          tensor,           found->index,
          found->nan_count, found->inf_count};
}
Step to_c(const StepResult<void>& result) noexcept {
  const auto reason = static_cast<int32_t>(result.reason);
  return {sizeof(Step),      result.skipped,      reason,
          result.loss_scale, to_c(result.report), to_c(result.nonfinite)};
}

}  // namespace

template <>
struct headroom::tree_traits<Tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;
  static any_tensor view(const Tensor& tensor) noexcept { return to_any(tensor); }
};
template <>
struct headroom::tree_traits<List> {
  static constexpr branch_kind kind = branch_kind::sequence;
};
namespace {

/// The gradients of step_into, which unscales `from` into `to`.
struct UnscaleInto {
  static constexpr bool clips = false;
  const From& from;
  const To& to;
  const Executor& executor;
  detail::Plan plan{};
  detail::GradientsSeen seen{};

  /// Throws if the lists do not fit.
  UnscaleInto(const From& source, const To& destination, const Executor& executor_of_all)
      : from(source), to(destination), executor(executor_of_all) {
    detail::make_plan<detail::UnscaleOps, detail::Access::into>(plan, source, destination);
    seen.first = plan.first_element();
    seen.has_elements = seen.first != nullptr;
  }
  [[nodiscard]] GradientReport unscale(float loss_scale) const {
    return detail::report_of(detail::run(plan, detail::unscale_pass(loss_scale), executor));
  }
  // Called at a loss scale of 1
  [[nodiscard]] GradientNorm measure() const { return {unscale(1.0F), 0.0}; }
  // Not called, because nothing is clipped
  [[nodiscard]] static GradientReport scale(double) noexcept { return {}; }
  /// If `from` is finite, unscaling by a scale below 1 has overflowed in `to`.
  static std::optional<NonFinite> find_nonfinite(const UnscaleInto& gradients, const Executor&) {
    const auto found = headroom::find_nonfinite(gradients.from);
    return found ? found : headroom::find_nonfinite(gradients.to);
  }
};

}  // namespace

struct headroom_loss_scale {
  AnyLossScale cpp;
};
/// A GradScaler whose optimizers are numbers. A number alone decides which optimizer it is.
struct headroom_grad_scaler {
  GradScaler<AnyLossScale> cpp;
  detail::ScalerCore<AnyLossScale>& core = cpp.core();

  explicit headroom_grad_scaler(const AnyLossScale& policy) : cpp(policy) {
    core.iteration.keys_suffice = true;
  }

  /// `max_norm` may be null.
  template <bool clips>
  detail::OptimizerState& unscale(const char* call, uint64_t id, const Grads& grads,
                                  const double* max_norm) {
    if (max_norm != nullptr) detail::check_max_norm(*max_norm);
    detail::OptimizerGradients<void, const Grads, detail::Access::in_place, clips> verbs(
        grads, core.executor);
    return core.add(verbs, {false, max_norm != nullptr ? *max_norm : -1.0}, call, id);
  }
  Step step(uint64_t id, const Grads& grads) {
    detail::OptimizerState* state = core.iteration.find(id, nullptr);
    if (state == nullptr || state->stepped) {
      state = &unscale<false>("step", id, grads, nullptr);  // throws if it has been stepped
    } else {
      state->seen.has_elements = detail::look_at(grads).has_elements;
    }
    return to_c(core.take<void>(state, grads, [] {}));
  }
  Step step_into(uint64_t id, const From& from, const To& to) {
    UnscaleInto verbs(from, to, core.executor);
    return to_c(core.take<UnscaleInto>(&core.add(verbs, {}, "step_into", id), verbs, [] {}));
  }
};

namespace {

// ---- calls with the same arguments ----

/// Calls verb(tree, executor), which returns a report.
template <class Verb>
Status run(const Tensor* tensors, size_t n, int32_t threads, Report* report,
           const Verb& verb) noexcept {
  return guarded([&] {
    check_out("report", report);
    const Tensors tree{list_of("tensors", tensors, n)};
    write(report, to_c(verb(tree, executor_of(threads))));
  });
}
/// Calls verb(source, destination, executor), which returns a report.
template <class Verb>
Status run_into(const Tensor* from, const Tensor* to, size_t n, int32_t threads, Report* report,
                const Verb& verb, Dtypes read = all, Dtypes written = all) noexcept {
  return guarded([&] {
    check_out("report", report);
    const From source{list_of("from", from, n, read)};
    const To destination{list_of("to", to, n, written)};
    try {
      write(report, to_c(verb(source, destination, executor_of(threads))));
    } catch (const std::invalid_argument&) {  // of a tensor in `to` the message would say from[2]
      detail::Plan plan;
      detail::make_plan<detail::CastOps, detail::Access::read_by_offset>(plan, destination);
      throw;
    }
  });
}
StateDict dict_of(const Policy& policy) { return policy.cpp.state_dict(); }
StateDict dict_of(const Scaler& scaler) { return scaler.cpp.state_dict(); }
/// Writes the state of a policy or a scaler.
template <class Handle>
Status save(const char* name, const Handle* handle, char* text, size_t* size) noexcept {
  return with(name, handle, [&](const Handle& self) {
    check_not_null("size", size);
    const std::string state = to_text(dict_of(self));
    const size_t needed = state.size() + 1;
    if (text != nullptr && *size < needed)
      throw_invalid_argument(
          {"*size is ", to_string(*size), "; the text needs ", to_string(needed)});
    if (text != nullptr) std::memcpy(text, state.c_str(), needed);
    *size = needed;
  });
}
/// `max_norm` may be null.
template <bool clips>
Status unscale(Scaler* scaler, uint64_t id, const Tensor* grads, size_t n, const double* max_norm,
               Report* report) noexcept {
  return with("scaler", scaler, [&](auto& self) {
    check_out("report", report);
    const char* const call = clips ? "unscale_and_clip" : "unscale";
    const auto& state = self.template unscale<clips>(
        call, id, Grads{list_of("grads", grads, n, not_narrow)}, max_norm);
    write(report,
          clips ? to_c(state.found) : to_c(static_cast<const GradientReport&>(state.found)));
  });
}

}  // namespace

// ---- the interface ----

const char* headroom_last_error(void) { return last_error; }
const char* headroom_version(void) { return HEADROOM_C_VERSION; }  // set by CMake
uint32_t headroom_abi(void) { return HEADROOM_ABI; }

Status headroom_from_dlpack(const void* dl_tensor, Tensor* out) {
  return with("dl_tensor", static_cast<const dlpack::DLTensor*>(dl_tensor), [&](auto& tensor) {
    check_not_null("out", out);
    const any_tensor any = from_dlpack(tensor);
    *out = {any.data, any.size,     static_cast<headroom_dtype>(any.dtype),
            any.ndim, tensor.shape, tensor.strides};
  });
}
Status headroom_scale_in_place(const Tensor* tensors, size_t n, double factor, int32_t threads) {
  return run(tensors, n, threads, nullptr, [&](auto& tree, auto&& on) {
    return scale_in_place(tree, factor, on), GradientReport();
  });
}
Status headroom_unscale_in_place(const Tensor* tensors, size_t n, float scale, int32_t threads,
                                 Report* report) {
  return run(tensors, n, threads, report, [&](auto& tree, auto&& on) {
    return unscale_in_place<allow_fp16_gradients>(tree, scale, on);
  });
}
Status headroom_unscale_into(const Tensor* from, const Tensor* to, size_t n, float scale,
                             int32_t threads, Report* report) {
  return run_into(from, to, n, threads, report, [&](auto& source, auto& destination, auto&& on) {
    return unscale_into(source, destination, scale, on);
  });
}
Status headroom_accumulate_into(const Tensor* from, const Tensor* to, size_t n, float scale,
                                int32_t threads, Report* report) {
  return run_into(from, to, n, threads, report, [&](auto& source, auto& destination, auto&& on) {
    return accumulate_into(source, destination, scale, on);
  });
}
Status headroom_unscale_and_clip_in_place(const Tensor* tensors, size_t n, float scale,
                                          double max_norm, int32_t threads, Report* report) {
  return run(tensors, n, threads, report, [&](auto& tree, auto&& on) {
    return unscale_and_clip_in_place<allow_fp16_gradients>(tree, scale, max_norm, on);
  });
}
Status headroom_clip_by_global_norm(const Tensor* tensors, size_t n, double max_norm,
                                    int32_t threads, Report* report) {
  return run(tensors, n, threads, report,
             [&](auto& tree, auto&& on) { return clip_by_global_norm(tree, max_norm, on); });
}
Status headroom_measure(const Tensor* tensors, size_t n, int32_t threads, Report* report) {
  return run(tensors, n, threads, report, [](auto& tree, auto&& on) { return measure(tree, on); });
}
Status headroom_cast(const Tensor* from, const Tensor* to, size_t n, int32_t saturates,
                     int32_t threads) {
  return run_into(from, to, n, threads, nullptr, [&](auto& source, auto& destination, auto&& on) {
    if (saturates != 0) return cast_into(source, destination, saturate, on), GradientReport();
    return cast_into(source, destination, on), GradientReport();
  });
}
Status headroom_find_nonfinite(const Tensor* tensors, size_t n, int32_t threads, Place* place,
                               int32_t* found) {
  return guarded([&] {
    check_out("place", place);
    check_not_null("found", found);
    const auto first =
        find_nonfinite(Tensors{list_of("tensors", tensors, n)}, executor_of(threads));
    write(place, to_c(first));
    *found = first.has_value();
  });
}
Status headroom_quantize(const Tensor* from, const Tensor* to, size_t n, const float* scales,
                         float* max_abs, int32_t threads, Report* report) {
  const auto verb = [&](auto& source, auto& destination, auto&& on) {
    if (n != 0) check_not_null("scales", scales);
    std::vector<float> unused(max_abs == nullptr ? n : 0);
    return quantize_into(source, destination, {scales, n},
                         {max_abs == nullptr ? unused.data() : max_abs, n}, on);
  };
  return run_into(from, to, n, threads, report, verb, floats, fp8);
}
Status headroom_dequantize(const Tensor* from, const Tensor* to, size_t n,
                           const float* inverse_scales, int32_t threads) {
  const auto verb = [&](auto& source, auto& destination, auto&& on) {
    if (n != 0) check_not_null("inverse_scales", inverse_scales);
    return dequantize_into(source, destination, {inverse_scales, n}, on), GradientReport();
  };
  return run_into(from, to, n, threads, nullptr, verb, floats, floats);
}

Status headroom_loss_scale_make(const char* name, const char* settings, Policy** out) {
  return with("name", name, [&](const char&) {
    check_not_null("out", out);
    *out = new Policy{make_loss_scale(name, from_text(settings == nullptr ? "" : settings))};
  });
}
void headroom_loss_scale_free(Policy* policy) { delete policy; }
float headroom_loss_scale_get(const Policy* policy) {
  return policy == nullptr ? 1.0F : policy->cpp.loss_scale();
}
Status headroom_loss_scale_adjust(Policy* policy, int32_t finite, double max_abs) {
  return with("policy", policy, [&](auto& self) {
    if (finite != 0 && detail::bit_cast<std::uint64_t>(max_abs) >= binary64::infinity_bits)
      throw_invalid_argument({"max_abs is ", detail::to_text(max_abs),
                              "; it must be 0 or more and finite, because finite is not 0"});
    self.cpp = self.cpp.adjust(GradientReport{finite != 0, max_abs});
  });
}
Status headroom_loss_scale_save(const Policy* policy, char* text, size_t* size) {
  return save("policy", policy, text, size);
}
Status headroom_loss_scale_load(const char* text, Policy** out) {
  return with("text", text, [&](const char&) {
    check_not_null("out", out);
    *out = new Policy{AnyLossScale::from_state_dict(from_text(text))};
  });
}

Status headroom_grad_scaler_make(const Policy* policy, Scaler** out) {
  return with("out", out, [&](Scaler*& made) {
    const AnyLossScale& held = policy == nullptr ? AnyLossScale(presets::torch()) : policy->cpp;
    made = new Scaler(held);
  });
}
void headroom_grad_scaler_free(Scaler* scaler) { delete scaler; }
float headroom_grad_scaler_get_scale(const Scaler* scaler) {
  return scaler == nullptr ? 1.0F : scaler->cpp.get_scale();
}
Status headroom_grad_scaler_set_threads(Scaler* scaler, int32_t threads) {
  return with("scaler", scaler, [&](auto& self) { self.cpp.set_executor(executor_of(threads)); });
}
Status headroom_grad_scaler_set_reducer(Scaler* scaler, headroom_reducer reducer, void* context) {
  return with("scaler", scaler, [&](auto& self) {
    if (reducer == nullptr) return self.cpp.set_reducer(nullptr);
    self.cpp.set_reducer([=](GradientSums sums, uint64_t digest) {
      int32_t finite = sums.finite ? 1 : 0;
      const Status status = guarded([&] {  // in C++ it may throw
        const Status returned =
            reducer(context, &finite, &sums.max_abs, &sums.sum_of_squares, digest);
        if (returned != HEADROOM_OK)
          throw std::runtime_error("headroom: the reducer returned " + to_string(returned));
      });
      if (status != HEADROOM_OK) throw std::runtime_error(last_error);
      sums.finite = finite != 0;
      return sums;
    });
  });
}
Status headroom_grad_scaler_scale(Scaler* scaler, double loss, double* scaled) {
  return with("scaler", scaler, [&](auto& self) {
    check_not_null("scaled", scaled);
    *scaled = self.cpp.scale(loss);
  });
}
Status headroom_grad_scaler_unscale(Scaler* scaler, uint64_t id, const Tensor* grads, size_t n,
                                    Report* report) {
  return unscale<false>(scaler, id, grads, n, nullptr, report);
}
Status headroom_grad_scaler_unscale_and_clip(Scaler* scaler, uint64_t id, const Tensor* grads,
                                             size_t n, double max_norm, Report* report) {
  return unscale<true>(scaler, id, grads, n, &max_norm, report);
}
Status headroom_grad_scaler_step(Scaler* scaler, uint64_t id, const Tensor* grads, size_t n,
                                 Step* step) {
  return with("scaler", scaler, [&](auto& self) {
    check_out("step", step);
    write(step, self.step(id, Grads{list_of("grads", grads, n, not_narrow)}));
  });
}
Status headroom_grad_scaler_step_into(Scaler* scaler, uint64_t id, const Tensor* from,
                                      const Tensor* to, size_t n, Step* step) {
  return run_into(from, to, n, 1, nullptr, [&](auto& source, auto& destination, auto&&) {
    check_not_null("scaler", scaler);
    check_out("step", step);
    write(step, scaler->step_into(id, source, destination));
    return GradientReport();
  });
}
Status headroom_grad_scaler_update(Scaler* scaler) {
  return with("scaler", scaler, [](auto& self) { self.cpp.update(); });
}
Status headroom_grad_scaler_abandon(Scaler* scaler) {
  return with("scaler", scaler, [](auto& self) { self.cpp.abandon(); });
}
Status headroom_grad_scaler_save(const Scaler* scaler, char* text, size_t* size) {
  return save("scaler", scaler, text, size);
}
Status headroom_grad_scaler_load(Scaler* scaler, const char* text) {
  return with("scaler", scaler, [&](auto& self) {
    check_not_null("text", text);
    self.cpp.load_state_dict(from_text(text));
  });
}
