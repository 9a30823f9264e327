#pragma once

// The interface of a translation unit of this program. It has no type of headroom, whose name
// depends on the flags.
struct Unit {
  const char* name;
  /// The number of failed checks. Each has been printed.
  int (*check)();
  int (*active_isa)();
  void (*force_portable)();
};

extern const Unit plain, plain_without_exceptions, avx2, avx512;
