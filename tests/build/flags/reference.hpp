#pragma once

#include <cstddef>
#include <cstdint>

// The expected results of the kernels, computed by exact references in a translation unit without
// the flags under test. Only bits cross the interface. The names of headroom's types depend on the
// flags, and some flags change what is assumed of floats.

namespace reference {

enum class Format : std::uint32_t { binary16, brain16, e4m3, binary32, binary64 };
enum class Verb : std::uint32_t { scale, unscale, cast };

/// Every pattern of a format of up to 16 bits. Of a wider one: the limits of every binade, every
/// kind of NaN, random patterns, and the places where rounding to a narrower format changes.
/// Zero-extended, as all bits here.
const std::uint64_t* samples(Format format);
std::size_t sample_count(Format format);

/// What `verb` stores for each of the samples of `in`; any NaN stands for every NaN. `factor` is
/// the bits of a float.
void outcomes(Verb verb, Format in, Format out, std::uint32_t factor, std::uint64_t* result);

/// The expected report on `n` elements, as the bits of a double: those of +Inf if an element is not
/// finite.
std::uint64_t max_abs(Format format, const std::uint64_t* elements, std::size_t n);
std::uint64_t norm(Format format, const std::uint64_t* elements, std::size_t n);

}  // namespace reference
