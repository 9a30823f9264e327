#pragma once

#include <headroom/kernel/table.hpp>
#include <headroom/ops/transform.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

namespace support {

/// Runs a kernel of the active instruction set on `n` contiguous elements.
template <headroom::detail::Op op, class In, class Out>
headroom::detail::Found run_kernel(const In* source, Out* destination, std::size_t n,
                                   double factor = 1.0) {
  using namespace headroom::detail;
  // Ignored if the kernel only reads
  const Piece piece{source, const_cast<std::remove_const_t<Out>*>(destination), n};
  Found found{0, 0.0};
  kernels<op, format_of<In>, format_of<Out>>[isa_index()](&piece, &piece + 1, Pass{op, factor},
                                                          found);
  return found;
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
