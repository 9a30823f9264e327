#pragma once

#include <headroom/ops/find_nonfinite.hpp>
