#pragma once

#include <atomic>

/// What translation units share whatever flags they are built with, here and in ops/pool.hpp: data, outside the inline
/// namespace that tells the units apart. Units of unlike versions share it, too, so it never changes: what has to be different
/// goes into a namespace of another number. A program has one of each together with its shared libraries, unless symbols are
/// hidden; of what is HEADROOM_HIDDEN, the program and every library has its own.
///
/// Of a function that several units have under one name the linker keeps one copy, which may be that for the newest CPU. So
/// what is in here has no functions, not even implicit constructors: it is constant-initialised, or made as an aggregate. Nor
/// is it a template argument of the standard library's functions, which are in common where only their arguments tell no units
/// apart: hence std::atomic<void*>. In common are then the members of std::atomic<int> and the like. They are inlined when
/// optimised; at -O0 they are calls that g++ and clang compile to moves of one word in general registers, which no standard
/// promises.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as its number; negative until first asked for.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1
