// expect: a storage_float holds what float can hold
#include <headroom/dtype/storage_float.hpp>

#include <cstdint>

#ifdef HEADROOM_CONTROL
struct format : headroom::ieee_format<std::uint16_t, 8, 7> {};
#else
struct format : headroom::ieee_format<std::uint64_t, 11, 52> {};
#endif

int main() { return static_cast<float>(headroom::storage_float<format>(1.0F)) == 1.0F ? 0 : 1; }
