#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/transform.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// destination += source / loss_scale, in one pass that widens, unscales, checks, measures and adds. For micro-batches whose
/// 16-bit gradients are summed in float, like Megatron's main_grad. The report describes what was added, as float (double if
/// source or destination is double), before rounding to a 16-bit destination; a sum beyond the destination's dtype shows when
/// you measure the destination. Everything is added even if something is not finite: clear the destination when you skip the
/// step.
///
/// Takes the same trees as unscale_into and throws the same errors. A leaf may be its own destination.
template <class Executor, class Source, class Destination>
GradientReport accumulate_into(const Executor& executor, const Source& source, Destination&& destination,
                               const float& loss_scale) {
  detail::Pass pass = detail::unscale_pass(loss_scale);
  pass.adds = true;
  using AddOps = detail::Ops<detail::Op::add_scaled, detail::Op::add_unscaled>;
  return detail::report_of(detail::plan_and_run<AddOps, detail::DestinationIs::the_users>(executor, pass, source, destination));
}
template <class Source, class Destination>
GradientReport accumulate_into(const Source& source, Destination&& destination, const float& loss_scale) {
  return headroom::accumulate_into(sequential, source, destination, loss_scale);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
