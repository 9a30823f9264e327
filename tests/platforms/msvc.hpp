// Included before a source file, this makes g++ and clang look like MSVC's cl to headroom. What cl
// lacks is an error.

#include <complex.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <charconv>
#include <chrono>
#include <clocale>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#define __FUNCSIG__ __PRETTY_FUNCTION__
#undef __GNUC__
#undef __clang__
#undef __x86_64__
#undef __unix__
#undef __SSE2__
#undef __FLT16_MANT_DIG__
#undef __BFLT16_MANT_DIG__
#pragma GCC poison __attribute__ __asm__ asm __typeof__ __int128 _Float16 __bf16
#pragma GCC poison __builtin_clz \
    __builtin_clzll __builtin_convertvector __builtin_cpu_supports __builtin_expect __builtin_fabs
#pragma GCC poison __builtin_mul_overflow __builtin_prefetch __builtin_shufflevector \
    __builtin_sqrt __builtin_unreachable
