# Toolchain for building the tool and its tests for aarch64 Linux on another machine:
#
#   cmake -G Ninja -B build/aarch64 -D CMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -D ISOMER_SYSROOT=FOLDER
#
# FOLDER holds the target's packages, the libraries of scripts/bootstrap unpacked; compilers, protoc and lld are those of this
# machine. Test programs run by qemu's user emulation, from ISOMER_SYSROOT; ISOMER_EMULATED_CPU names another CPU than qemu's best.
set(ISOMER_SYSROOT "" CACHE PATH "The root of an aarch64 Debian system, as far as the build needs it")
set(ISOMER_EMULATED_CPU "max,sve=off" CACHE STRING "qemu's name of the CPU that tests run on")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ISOMER_SYSROOT ISOMER_EMULATED_CPU)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT ${ISOMER_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${ISOMER_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${ISOMER_EMULATED_CPU} -L ${ISOMER_SYSROOT})
