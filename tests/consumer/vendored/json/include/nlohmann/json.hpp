#pragma once

namespace nlohmann {
constexpr int vendored = 7;
}
