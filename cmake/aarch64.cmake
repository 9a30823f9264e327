# Toolchain: Debian's cross compiler for aarch64, and qemu to run its programs. Packages: g++-aarch64-linux-gnu qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# Header-only libraries of the host are used here too. They are in /usr/include beside the host's own headers, so the preset
# searches that directory after the compiler's.
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
