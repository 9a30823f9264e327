#pragma once

#include <atomic>

/// What translation units share whatever their flags: data outside the inline namespace that tells the units apart. Units of
/// different versions share it too, so it never changes: anything different goes into a namespace with another number.
///
/// If several units define a function under one name, the linker keeps one copy, possibly the one for the newest CPU. So what
/// is here has no functions but those of std::atomic<int>, which compile to moves of one word in general registers.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as its number; negative until first asked for.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1
