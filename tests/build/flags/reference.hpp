#pragma once

#include <cstddef>
#include <cstdint>

// What the kernels are to give, worked out by exact references in a translation unit that is compiled without any of the flags
// under test. Bits cross over and nothing else: no type of headroom's, whose name depends on the flags, and no floating-point
// number, of which some flags would know too much.

namespace reference {

enum class Format : std::uint32_t { binary16, brain16, e4m3, binary32, binary64 };
enum class Verb : std::uint32_t { scale, unscale, cast };

/// Every pattern of a format of up to 16 bits. Of a wider one: the edges of every binade, every kind of NaN, random patterns,
/// and where rounding to one of those changes its mind. Zero-extended, as all bits here.
const std::uint64_t* samples(Format format);
std::size_t sample_count(Format format);

/// What `verb` stores for each of the samples of `in`; a NaN is any NaN. `factor` is the bits of a float.
void outcomes(Verb verb, Format in, Format out, std::uint32_t factor, std::uint64_t* result);

/// What is to be reported of `n` elements, as the bits of a double: +Inf where an element is not finite.
std::uint64_t max_abs(Format format, const std::uint64_t* elements, std::size_t n);
std::uint64_t norm(Format format, const std::uint64_t* elements, std::size_t n);

}  // namespace reference
