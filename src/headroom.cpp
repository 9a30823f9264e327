// headroom::compiled: the kernels of all formats of headroom's own, compiled once.
#undef HEADROOM_COMPILED  // this is what the others are spared

#include <headroom/kernel/compiled.hpp>
#include <headroom/kernel/table.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace headroom::boundary_v1 {
namespace {

using Formats = std::tuple<binary16, brain16, binary32, binary64, e4m3, e5m2, cb16>;
static_assert(std::tuple_size_v<Formats> == format_count);
static_assert(static_cast<int>(Op::measure) + 1 == op_count && detail::isa_count == 4);

/// Whether an op only reads: then it has one format.
constexpr bool reads(Op op) { return op == Op::max_abs || op == Op::measure; }

template <Op op, class In, class Out>
constexpr void add(CompiledKernels& all) {
  if constexpr (detail::is_compiled<op, In, Out> && (!reads(op) || std::is_same_v<In, Out>)) {
    for (int isa = 0; isa < detail::isa_count; ++isa) {
      all.kernels[static_cast<int>(op)][detail::compiled_place<In>][detail::compiled_place<Out>][isa] =
          detail::kernels<op, In, Out>[isa];
    }
  }
}
template <Op op, class In, class... Outs>
constexpr void add_destinations(CompiledKernels& all, std::tuple<Outs...>*) {
  (add<op, In, Outs>(all), ...);
  (add<op, In, detail::saturating<Outs>>(all), ...);
}
template <class... Ins, int... ops>
constexpr CompiledKernels make(std::tuple<Ins...>* formats, std::integer_sequence<int, ops...>) {
  CompiledKernels all{};
  const auto add_sources = [&](auto op) { (add_destinations<static_cast<Op>(op()), Ins>(all, formats), ...); };
  (add_sources(std::integral_constant<int, ops>()), ...);
  return all;
}

}  // namespace

constexpr CompiledKernels compiled = make(static_cast<Formats*>(nullptr), std::make_integer_sequence<int, op_count>());

}  // namespace headroom::boundary_v1
