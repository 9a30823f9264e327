#pragma once

// What a translation unit of this program shows of itself: nothing that takes a type of headroom's, which the others' flags
// give another name.
struct Unit {
  const char* name;
  /// The number of checks that failed, each of which has been printed.
  int (*check)();
  int (*active_isa)();
  void (*force_scalar)();
};

extern const Unit plain, plain_without_exceptions, avx2, avx512;
