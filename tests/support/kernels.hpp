#pragma once

#include <headroom/kernel/table.hpp>
#include <headroom/ops/transform.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

namespace support {

/// Runs that of `by_isa` for the active instruction set on `n` contiguous elements.
inline headroom::detail::Found run_kernel(const headroom::detail::Kernel* by_isa,
                                          const headroom::detail::Pass& pass, const void* source,
                                          void* destination, std::size_t n) {
  const headroom::detail::Piece piece{source, destination, n};
  headroom::detail::Found found{0, 0.0};
  by_isa[headroom::detail::isa_index()](&piece, &piece + 1, pass, found);
  return found;
}
template <headroom::detail::Op op, class In, class Out>
headroom::detail::Found run_kernel(const In* source, Out* destination, std::size_t n,
                                   double factor = 1.0) {
  using namespace headroom::detail;
  // Ignored if the kernel only reads
  void* const written = const_cast<std::remove_const_t<Out>*>(destination);
  return run_kernel(kernels<op, format_of<In>, format_of<Out>>, {op, factor}, source, written, n);
}

/// A kernel for every instruction set.
template <headroom::detail::Kernel kernel>
const headroom::detail::Kernel* on_every_isa() {
  static const std::vector<headroom::detail::Kernel> kernels(headroom::detail::isa_count, kernel);
  return kernels.data();
}

/// destination = source * factor.
template <class Source, class Destination>
void scale_into(const Source& source, Destination&& destination, double factor) {
  using namespace headroom::detail;
  check_factor(factor);
  (void)plan_and_run<ScaleOps, Access::into>(Pass{Op::scale, factor}, headroom::sequential, source,
                                             destination);
}

}  // namespace support
