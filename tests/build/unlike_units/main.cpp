// Units with different flags in one program. Each computes the right results with its own code, on
// a CPU without the instructions that the others were compiled for. All share the chosen
// instruction set.
#include <cstdio>
#include <vector>

#include "unit.hpp"

int main() {
  std::vector<const Unit*> units{&plain_without_exceptions, &plain};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back(&avx2);
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    units.push_back(&avx512);
  for (const Unit* unit : units) std::printf("%s ", unit->name);
  std::printf("run here\n");
  std::fflush(stdout);

  int failed = 0;
  for (int round = 0; round < 2; ++round) {
    for (const Unit* unit : units) failed += unit->check();
  }
  for (const Unit* one : units) {
    one->force_portable();
    for (const Unit* other : units) {
      if (other->active_isa() == 0) continue;
      std::printf("%s does not see what %s has chosen\n", other->name, one->name);
      ++failed;
    }
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
