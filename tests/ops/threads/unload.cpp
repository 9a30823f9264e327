// unload LIBRARY: loads it, lets it use threads and unloads it, over and over: no thread is left behind to run what is gone.
#include <dlfcn.h>
#include <unistd.h>

#include <iostream>  // and the standard library with it: loaded for the library alone, it would keep that loaded

int main(int, char** arguments) {
  for (int round = 0; round < 100; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::cout << dlerror() << "\n";
      return 1;
    }
    using Use = bool (*)();
    const auto use = reinterpret_cast<Use>(dlsym(library, "use_threads"));
    if (use == nullptr || !use()) return 1;
    if (round % 3 == 1) usleep(1000);  // its workers sleep by then
    if (dlclose(library) != 0) return 1;
    if (round % 3 == 2) usleep(1000);
  }
  if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == nullptr) return 0;
  std::cout << "The library is still loaded: this has tested nothing.\n";
  return 1;
}
