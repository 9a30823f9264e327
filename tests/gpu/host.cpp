// The host's side of hash_on_device, whose device code has been compiled for this CPU.
#include <cstdio>

#include "device.hpp"

extern "C" void hash_on_device(const Cases* cases, std::uint64_t* hash);

int main() {
  const Cases cases;
  std::uint64_t hash = 0;
  hash_on_device(&cases, &hash);
  std::printf("device %llx, host %llx\n", static_cast<unsigned long long>(hash),
              static_cast<unsigned long long>(hash_of(cases)));
  return hash == hash_of(cases) ? 0 : 1;
}
