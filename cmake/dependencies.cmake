# Third-party lookup. Required: fmt, protobuf, CLI11, nlohmann_json, an ONNX schema. The rest is used when found.
# ISOMER_FEATURES names what this build can do; an optional owner (LLVM, Z3) that is found adds its name.
set(ISOMER_FEATURES onnx interp)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# protobuf: newer releases need their own configuration files for the libraries behind them; older ones have none.
find_package(protobuf CONFIG QUIET)
if(NOT protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()

find_package(Python3 COMPONENTS Interpreter QUIET)

if(ISOMER_TESTS)
  find_package(GTest QUIET)
  # The ONNX project's own cases for every operator, as the distribution installs them.
  find_path(ISOMER_ONNX_TESTDATA node/test_add/model.onnx PATHS /usr/share /usr/local/share
    PATH_SUFFIXES libonnx-testdata/data onnx/backend/test/data)
  mark_as_advanced(ISOMER_ONNX_TESTDATA)
endif()
if(ISOMER_BENCH)
  find_package(benchmark QUIET)
endif()

include(cmake/onnx_proto.cmake)
