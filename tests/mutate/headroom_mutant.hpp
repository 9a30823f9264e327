#pragma once

// Every mutated header includes this file first. The environment variable HEADROOM_MUTANT is the
// number of the active mutant. If HEADROOM_MUTANT_REACHED names a file, its byte n becomes 1 when
// mutant n is reached, in this process or its children, however they end. Code that the compiler
// evaluates is mutated only if the macro HEADROOM_MUTANT_OF_CONSTANTS is the number.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#ifndef HEADROOM_MUTANT_OF_CONSTANTS
#define HEADROOM_MUTANT_OF_CONSTANTS 0
#endif

namespace headroom_mutants {

inline constexpr int most = 1 << 16;

inline int chosen() noexcept {
  const char* number = std::getenv("HEADROOM_MUTANT");
  return number != nullptr ? std::atoi(number) : 0;
}
inline unsigned char* shared_bytes() noexcept {
  const char* name = std::getenv("HEADROOM_MUTANT_REACHED");
  if (name == nullptr) return nullptr;
  const int file = open(name, O_RDWR);
  void* bytes = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || bytes == MAP_FAILED) std::abort();
  close(file);
  return static_cast<unsigned char*>(bytes);
}

inline const int active = chosen();
inline unsigned char* const reached = shared_bytes();

inline bool passes(int number) noexcept {
  if (reached != nullptr) reached[number] = 1;
  return number == active;
}

}  // namespace headroom_mutants

constexpr bool headroom_mutant(int number) noexcept {
  return number == HEADROOM_MUTANT_OF_CONSTANTS ||
         (!__builtin_is_constant_evaluated() && headroom_mutants::passes(number));
}
