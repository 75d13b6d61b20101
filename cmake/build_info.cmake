# build_info.h: what this binary is. Written at build time, since the commit changes without a new configuration,
# and rewritten only when its text changes. Link isomer_build_info to include it.
include_guard()

# A tree without the optional parts still has a feature list; each owner appends to it in dependencies.cmake.
if(ISOMER_SANITIZE)
  list(APPEND ISOMER_FEATURES "sanitize=${ISOMER_SANITIZE}")
endif()
if(ISOMER_FUZZ)
  list(APPEND ISOMER_FEATURES fuzz)
endif()
find_package(Git QUIET)

set(build_info_dir ${CMAKE_BINARY_DIR}/generated)
list(JOIN ISOMER_FEATURES " " feature_words)  # a list would fall apart on the command line
set(build_info_command
  ${CMAKE_COMMAND}
  -D "VERSION=${PROJECT_VERSION}"
  -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
  -D "TARGET_ARCH=${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}"
  -D "BUILD_TYPE=${CMAKE_BUILD_TYPE}"
  -D "FEATURES=${feature_words}"
  -D "GIT=${GIT_EXECUTABLE}"
  -D "SOURCE=${PROJECT_SOURCE_DIR}"
  -D "OUTPUT=${build_info_dir}/build_info.h"
  -P ${PROJECT_SOURCE_DIR}/cmake/write_build_info.cmake)
add_custom_target(isomer_write_build_info
  COMMAND ${build_info_command}
  BYPRODUCTS ${build_info_dir}/build_info.h
  COMMENT "Writing build_info.h"
  VERBATIM)
add_library(isomer_build_info INTERFACE)
target_include_directories(isomer_build_info INTERFACE ${build_info_dir})
add_dependencies(isomer_build_info isomer_write_build_info)

function(isomer_print_features)
  isomer_all_modules(modules)
  list(REVERSE modules)
  list(TRANSFORM modules REPLACE "^isomer_" "")
  list(JOIN modules " " modules)
  list(JOIN ISOMER_FEATURES " " features)
  foreach(pair "GTest_FOUND tests" "benchmark_FOUND benchmarks")
    string(REPLACE " " ";" pair ${pair})
    list(GET pair 0 variable)
    list(GET pair 1 label)
    if(${variable})
      string(APPEND parts " ${label}")
    endif()
  endforeach()
  string(STRIP "${parts}" parts)
  message(STATUS "Isomer ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
                 "${CMAKE_CXX_COMPILER_VERSION}, linker ${ISOMER_LINKER}")
  message(STATUS "  modules:  ${modules}")
  message(STATUS "  features: ${features}")
  message(STATUS "  builds:   ${parts}")
  message(STATUS "  schema:   ${ISOMER_ONNX_PROTO}")
endfunction()
