// Units with unlike flags in one program: each computes the right thing with its own code, on a CPU that has not what the
// others were compiled for, and the chosen instruction set is one for all of them.
#include <cstdio>
#include <vector>

#include "unit.hpp"

int main() {
  std::vector<const Unit*> units{&plain_without_exceptions, &plain};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back(&avx2);
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) units.push_back(&avx512);
  for (const Unit* unit : units) std::printf("%s ", unit->name);
  std::printf("run here\n");
  std::fflush(stdout);

  int failed = 0;
  for (int round = 0; round < 2; ++round) {
    for (const Unit* unit : units) failed += unit->check();
  }
  for (const Unit* one : units) {
    one->force_scalar();
    for (const Unit* other : units) {
      if (other->active_isa() == 0) continue;
      std::printf("%s does not see what %s has chosen\n", other->name, one->name);
      ++failed;
    }
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
