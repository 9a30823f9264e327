#pragma once

#include <atomic>

/// What is one in a program, whatever flags its translation units are built with: data without code of its own, outside the
/// inline namespace that tells the units apart. Units of unlike versions share it, too, so it never changes: what has to be
/// different goes into a namespace of another number.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as its number; negative until first asked for.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1
