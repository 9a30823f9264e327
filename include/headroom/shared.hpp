#pragma once

#include <atomic>

/// What translation units share whatever their flags: data, here and in a few other headers, outside the inline namespace that
/// tells the units apart. Units of different versions share it too, so it never changes: anything different goes into a
/// namespace with another number. A program and its shared libraries have one of each, unless symbols are hidden; of what is
/// HEADROOM_DETAIL_HIDDEN, the program and each library have their own.
///
/// If several units define a function under one name, the linker keeps one copy, possibly the one for the newest CPU. So the
/// types here have no functions, not even implicit constructors: they are constant-initialised or made as aggregates. Nor are
/// they template arguments of the standard library's functions, which units would share: hence std::atomic<void*>. Members of
/// std::atomic<int> and the like are shared all the same. Optimised they are inlined; at -O0 they are calls that g++ and clang
/// compile to moves of one word in general registers, which no standard promises.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as its number; negative until first asked for.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1
