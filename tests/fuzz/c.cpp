// For libFuzzer: the random sequences of tests/c/fuzz.cpp, from the bytes of an input.
#include "c/fuzz.cpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  support::set_bytes(data, size);
  run_sequence();
  return 0;
}
