# Chooses compiler and launcher before project() looks for them. An explicit CXX or CMAKE_CXX_COMPILER always wins.
set(ISOMER_SANITIZE "" CACHE STRING "Sanitizers for the whole build, as given to -fsanitize=, for example address,undefined")

# Sanitizer reports are better from clang, and libFuzzer exists only there; g++ remains good enough for the former.
if((ISOMER_SANITIZE OR ISOMER_FUZZ) AND NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(ISOMER_CLANGXX NAMES clang++-19)
  mark_as_advanced(ISOMER_CLANGXX)
  if(ISOMER_CLANGXX)
    set(CMAKE_CXX_COMPILER ${ISOMER_CLANGXX})
    find_program(ISOMER_CLANG NAMES clang-19)  # both languages must have the same sanitizer
    mark_as_advanced(ISOMER_CLANG)
    if(ISOMER_CLANG AND NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
      set(CMAKE_C_COMPILER ${ISOMER_CLANG})
    endif()
  endif()
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(ISOMER_CCACHE NAMES ccache)
  mark_as_advanced(ISOMER_CCACHE)
  if(ISOMER_CCACHE)
    # Without these two the cache refuses files that use precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${ISOMER_CCACHE}"
      CACHE STRING "Compiler launcher")
  endif()
endif()
