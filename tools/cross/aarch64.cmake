# CMake toolchain file: cross-compiles for aarch64 on a Debian of another architecture. Used by
# tools/cross/aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(FLAME_SYSROOT "$ENV{FLAME_SYSROOT}" CACHE PATH "")
set(CMAKE_FIND_ROOT_PATH ${FLAME_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_C_FLAGS_INIT "-isystem ${FLAME_SYSROOT}/usr/include/aarch64-linux-gnu")
