// headroom::compiled: the kernels of headroom's own formats, compiled once.
#undef HEADROOM_COMPILED  // this file compiles the kernels itself

#include <headroom/kernel/compiled.hpp>
#include <headroom/kernel/table.hpp>

#include <type_traits>
#include <utility>

namespace {

using namespace headroom::detail;

/// Whether an op is meant for these formats.
template <class In, class Out>
constexpr bool is_for(Op op) {
  if (op == Op::scale_blocks) return is_code<In> != is_code<Out>;
  if (is_packed<In> || is_packed<Out>) return false;
  if (only_reads(op)) return std::is_same_v<In, Out>;
  return is_fp8<Out> || op != Op::quantize;
}

template <Op op, class In, class Out>
constexpr void add(CompiledKernels& all) {
  if constexpr (is_compiled<In, Out> && is_for<In, Out>(op)) {
    for (int isa = 0; isa < isa_count; ++isa) {
      all.kernels[static_cast<int>(op)][compiled_place<In>][compiled_place<Out>][isa] =
          kernels<op, In, Out>[isa];
    }
  }
}
template <Op op, class In, class... Outs>
constexpr void add_destinations(CompiledKernels& all, FormatList<Outs...>) {
  (add<op, In, Outs>(all), ...);
}
template <class... Ins, int... ops>
constexpr CompiledKernels make(FormatList<Ins...> formats, std::integer_sequence<int, ops...>) {
  CompiledKernels all{};
  const auto add_sources = [&](auto op) {
    (add_destinations<static_cast<Op>(op()), Ins>(all, formats), ...);
  };
  (add_sources(std::integral_constant<int, ops>()), ...);
  return all;
}

}  // namespace

template <>
constexpr CompiledKernels CompiledKernels::compiled =
    make(CompiledFormats(), std::make_integer_sequence<int, headroom::boundary_v4::op_count>());
