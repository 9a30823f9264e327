#ifndef HEADROOM_HEADROOM_HPP
#define HEADROOM_HEADROOM_HPP

#include <headroom/config.hpp>
#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/isa.hpp>
#include <headroom/kernel/kernel.hpp>
#include <headroom/kernel/report.hpp>
#include <headroom/observe/find_nonfinite.hpp>
#include <headroom/ops/all_finite.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/tree/fields.hpp>
#include <headroom/tree/layout.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>
#include <headroom/tree/visit.hpp>
#include <headroom/version.hpp>

#endif
