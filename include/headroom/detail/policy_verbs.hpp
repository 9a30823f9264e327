#pragma once

#include <headroom/config.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Stands for "each leaf keeps its dtype" where a verb takes a dtype.
struct same_dtype {};

namespace detail {

/// The verbs over trees for the policies, which know nothing of trees: defined in <headroom/ops/policy_verbs.hpp>, which
/// <headroom/headroom.hpp> includes. `Call` only puts off the question to where a verb is called.
template <class Policy, class Call>
struct PolicyVerbs;

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
