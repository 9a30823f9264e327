// The same work with Google's Highway, compiled for every instruction set that it supports.
#include "highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contenders {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

inline hn::Vec<Floats> load(Floats d, const float* source) { return hn::LoadU(d, source); }
template <class T>
inline hn::Vec<Floats> load(Floats d, const T* source) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, Floats>(), source));
}
inline void store(Floats d, hn::Vec<Floats> value, float* destination) {
  hn::StoreU(value, d, destination);
}
template <class T>
inline void store(Floats, hn::Vec<Floats> value, T* destination) {
  const hn::Rebind<T, Floats> d;
  hn::StoreU(hn::DemoteTo(d, value), d, destination);
}

/// n is a multiple of every register's number of lanes.
template <class In, class Out>
bool unscale(const In* source, Out* destination, std::size_t n, float inverse_scale) {
  const Floats d;
  const auto factor = hn::Set(d, inverse_scale);
  auto finite = hn::FirstN(d, hn::Lanes(d));
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto value = hn::Mul(load(d, source + i), factor);
    store(d, value, destination + i);
    finite = hn::And(finite, hn::IsFinite(value));
  }
  return hn::AllTrue(d, finite);
}
template <class In>
bool all_finite(const In* values, std::size_t n) {
  const Floats d;
  auto finite = hn::FirstN(d, hn::Lanes(d));
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    finite = hn::And(finite, hn::IsFinite(load(d, values + i)));
  return hn::AllTrue(d, finite);
}
template <class Out>
void cast(const float* source, Out* destination, std::size_t n) {
  const Floats d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) store(d, load(d, source + i), destination + i);
}

using Half = hwy::float16_t;
using Brain = hwy::bfloat16_t;
bool unscale_float(float* v, std::size_t n, float f) { return unscale(v, v, n, f); }
bool unscale_half(Half* v, std::size_t n, float f) { return unscale(v, v, n, f); }
bool unscale_brain(Brain* v, std::size_t n, float f) { return unscale(v, v, n, f); }
bool widen_half(const Half* s, float* d, std::size_t n, float f) { return unscale(s, d, n, f); }
bool widen_brain(const Brain* s, float* d, std::size_t n, float f) { return unscale(s, d, n, f); }
bool finite_float(const float* v, std::size_t n) { return all_finite(v, n); }
bool finite_half(const Half* v, std::size_t n) { return all_finite(v, n); }
bool finite_brain(const Brain* v, std::size_t n) { return all_finite(v, n); }
void cast_half(const float* s, Half* d, std::size_t n) { cast(s, d, n); }
void cast_brain(const float* s, Brain* d, std::size_t n) { cast(s, d, n); }

}  // namespace HWY_NAMESPACE
}  // namespace contenders
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contenders {

HWY_EXPORT(unscale_float);
HWY_EXPORT(unscale_half);
HWY_EXPORT(unscale_brain);
HWY_EXPORT(widen_half);
HWY_EXPORT(widen_brain);
HWY_EXPORT(finite_float);
HWY_EXPORT(finite_half);
HWY_EXPORT(finite_brain);
HWY_EXPORT(cast_half);
HWY_EXPORT(cast_brain);

namespace {
hwy::float16_t* as_highway(headroom::half* values) {
  return reinterpret_cast<hwy::float16_t*>(values);
}
hwy::bfloat16_t* as_highway(headroom::bfloat16* values) {
  return reinterpret_cast<hwy::bfloat16_t*>(values);
}
}  // namespace

bool highway_unscale(float* v, std::size_t n, float f) {
  return HWY_DYNAMIC_DISPATCH(unscale_float)(v, n, f);
}
bool highway_unscale(headroom::half* v, std::size_t n, float f) {
  return HWY_DYNAMIC_DISPATCH(unscale_half)(as_highway(v), n, f);
}
bool highway_unscale(headroom::bfloat16* v, std::size_t n, float f) {
  return HWY_DYNAMIC_DISPATCH(unscale_brain)(as_highway(v), n, f);
}
bool highway_unscale(headroom::half* s, float* d, std::size_t n, float f) {
  return HWY_DYNAMIC_DISPATCH(widen_half)(as_highway(s), d, n, f);
}
bool highway_unscale(headroom::bfloat16* s, float* d, std::size_t n, float f) {
  return HWY_DYNAMIC_DISPATCH(widen_brain)(as_highway(s), d, n, f);
}
bool highway_all_finite(float* v, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(finite_float)(v, n);
}
bool highway_all_finite(headroom::half* v, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(finite_half)(as_highway(v), n);
}
bool highway_all_finite(headroom::bfloat16* v, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(finite_brain)(as_highway(v), n);
}
void highway_cast(const float* s, headroom::half* d, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(cast_half)(s, as_highway(d), n);
}
void highway_cast(const float* s, headroom::bfloat16* d, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(cast_brain)(s, as_highway(d), n);
}

}  // namespace contenders
#endif
