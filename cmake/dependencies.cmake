# Third-party lookup. Required: fmt, protobuf, CLI11, nlohmann_json, an ONNX schema. The rest is used when found.
# Each optional one that is found adds its name to ISOMER_FEATURES.
set(ISOMER_FEATURES "")

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# protobuf: newer releases need their own configuration files for the libraries behind them; older ones have none.
find_package(protobuf CONFIG QUIET)
if(NOT protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()

# xxHash is used header-only (the user of it defines XXH_INLINE_ALL), by base alone.
set(ISOMER_XXHASH_TARGET "")
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(ISOMER_XXHASH_PC QUIET libxxhash)
endif()
find_path(ISOMER_XXHASH_INCLUDE xxhash.h HINTS ${ISOMER_XXHASH_PC_INCLUDE_DIRS})
mark_as_advanced(ISOMER_XXHASH_INCLUDE)
if(ISOMER_XXHASH_INCLUDE)
  add_library(isomer_xxhash INTERFACE)
  target_include_directories(isomer_xxhash SYSTEM INTERFACE ${ISOMER_XXHASH_INCLUDE})
  target_compile_definitions(isomer_xxhash INTERFACE ISOMER_HAVE_XXHASH=1)
  set(ISOMER_XXHASH_TARGET isomer_xxhash)
  list(APPEND ISOMER_FEATURES xxhash)
endif()

find_package(Python3 COMPONENTS Interpreter QUIET)

if(ISOMER_TESTS)
  find_package(GTest QUIET)
  find_package(rapidcheck CONFIG QUIET)
  # The ONNX project's own cases for every operator, as the distribution installs them.
  find_path(ISOMER_ONNX_TESTDATA node/test_add/model.onnx PATHS /usr/share /usr/local/share
    PATH_SUFFIXES libonnx-testdata/data onnx/backend/test/data)
  mark_as_advanced(ISOMER_ONNX_TESTDATA)
endif()
if(ISOMER_BENCH)
  find_package(benchmark QUIET)
endif()

include(cmake/onnx_proto.cmake)
