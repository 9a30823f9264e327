#pragma once

// The path for users, beside the rest of what observes; the search is a verb, which ops/ and training/ need below this room.
#include <headroom/ops/find_nonfinite.hpp>
