# Language level, build type, sanitizers, linker, and the warnings of Isomer's own code.
include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Modules end up in executables: nobody puts another definition in front of theirs.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG -fno-semantic-interposition")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

# A product and a sum are two roundings, in the reference and wherever bits are compared. Where fused ones belong to the base
# architecture, compilers would join the two on their own; on x86-64 they cannot.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  add_compile_options(-ffp-contract=off)
endif()

if(ISOMER_SANITIZE)
  add_compile_options(-fsanitize=${ISOMER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ISOMER_SANITIZE})
endif()
if(ISOMER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ISOMER_FUZZ needs clang: libFuzzer is part of it. Found ${CMAKE_CXX_COMPILER_ID}.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# A fast linker is worth having and never required. g++ 12 knows only the unversioned name.
set(ISOMER_LINKER "default")
foreach(linker lld-19 lld mold)
  string(MAKE_C_IDENTIFIER "ISOMER_HAS_LINKER_${linker}" has_linker)
  check_linker_flag(CXX "-fuse-ld=${linker}" ${has_linker})
  if(${has_linker})
    add_link_options(-fuse-ld=${linker})
    set(ISOMER_LINKER ${linker})
    break()
  endif()
endforeach()

add_library(isomer_warnings INTERFACE)
target_compile_options(isomer_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  -Werror=switch                      # closed node sets rely on exhaustive switches
  -Wno-missing-field-initializers)    # records name the fields they set; the others have their defaults
if(ISOMER_WERROR)
  target_compile_options(isomer_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(isomer_warnings INTERFACE -Wno-restrict)  # g++ 12 misfires on std::string operator+
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ marks get_temporary_buffer as deprecated and calls it itself in std::stable_sort; clang reports it here.
  target_compile_options(isomer_warnings INTERFACE -Wno-deprecated-declarations)
endif()
