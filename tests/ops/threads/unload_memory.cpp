// unload_memory LIBRARY: uses headroom and then the library, which has its own copy of it, and unloads it, over and over: what
// the library has allocated goes with it, although this program shows it all of headroom's symbols.
#include <dlfcn.h>
#include <headroom/headroom.hpp>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <new>
#include <vector>

namespace {
std::atomic<long> blocks{0};
}

void* operator new(std::size_t bytes) {
  void* const block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) std::abort();
  ++blocks;
  return block;
}
void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  --blocks;
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

int main(int, char** arguments) {
  std::vector<std::vector<float>> many_leaves(500, std::vector<float>(10, 1.0F));
  headroom::scale_in_place(headroom::parallel(2), many_leaves, 2.0);
  long before = 0;
  for (int round = 0; round < 20; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::cout << dlerror() << "\n";
      return 1;
    }
    using Use = bool (*)();
    const auto use = reinterpret_cast<Use>(dlsym(library, "use_threads"));
    if (use == nullptr || !use() || dlclose(library) != 0) return 1;
    if (round == 0) before = blocks;  // of what is allocated once
  }
  if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != nullptr) {
    std::cout << "The library is still loaded: this has tested nothing.\n";
    return 1;
  }
  if (blocks > before) std::cout << blocks - before << " blocks were left behind by a library that is gone.\n";
  return blocks > before ? 1 : 0;
}
