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

# A search makes and drops millions of small expressions on several threads: with jemalloc it takes two thirds of the time. It is
# linked into executables, so that nothing new has to be installed where they run.
add_library(isomer_malloc INTERFACE)
if(ISOMER_MALLOC AND NOT ISOMER_SANITIZE AND NOT ISOMER_FUZZ)
  find_library(ISOMER_JEMALLOC jemalloc_pic)
  mark_as_advanced(ISOMER_JEMALLOC)
  if(ISOMER_JEMALLOC)
    target_link_libraries(isomer_malloc INTERFACE ${ISOMER_JEMALLOC})
    list(APPEND ISOMER_FEATURES jemalloc)
  else()
    message(STATUS "jemalloc not found: the system's allocator serves, and searches take longer")
  endif()
endif()

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

# LLVM 19 as the distribution's shared library; its headers are system headers, whose warnings are not ours.
if(ISOMER_LLVM)
  find_package(LLVM 19.1 CONFIG QUIET PATHS /usr/lib/llvm-19 /usr/local/lib/llvm-19)
  if(LLVM_FOUND AND LLVM_VERSION_MAJOR EQUAL 19)
    add_library(isomer_llvm INTERFACE)
    target_include_directories(isomer_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
    separate_arguments(llvm_definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
    target_compile_options(isomer_llvm INTERFACE ${llvm_definitions})
    target_link_libraries(isomer_llvm INTERFACE LLVM)
    list(APPEND ISOMER_FEATURES llvm)
  else()
    message(STATUS "LLVM 19 not found: no compiled code, the interpreter runs everything")
    set(ISOMER_LLVM OFF)
  endif()
endif()

if(ISOMER_Z3)
  find_path(ISOMER_Z3_INCLUDE z3++.h)
  find_library(ISOMER_Z3_LIBRARY z3)
  mark_as_advanced(ISOMER_Z3_INCLUDE ISOMER_Z3_LIBRARY)
  if(ISOMER_Z3_INCLUDE AND ISOMER_Z3_LIBRARY)
    add_library(isomer_z3 INTERFACE)
    target_include_directories(isomer_z3 SYSTEM INTERFACE ${ISOMER_Z3_INCLUDE})
    target_link_libraries(isomer_z3 INTERFACE ${ISOMER_Z3_LIBRARY})
    list(APPEND ISOMER_FEATURES z3)
  else()
    message(STATUS "Z3 not found: rules cannot be proved anew")
    set(ISOMER_Z3 OFF)
  endif()
endif()

# The store of measured kernels. It stands on compiled kernels, so that it is looked for with LLVM only.
if(ISOMER_LLVM)
  find_path(ISOMER_SQLITE_INCLUDE sqlite3.h)
  find_library(ISOMER_SQLITE_LIBRARY sqlite3)
  mark_as_advanced(ISOMER_SQLITE_INCLUDE ISOMER_SQLITE_LIBRARY)
  if(NOT ISOMER_SQLITE_INCLUDE OR NOT ISOMER_SQLITE_LIBRARY)
    message(FATAL_ERROR "SQLite 3 not found (libsqlite3-dev); it keeps measured times. -D ISOMER_LLVM=OFF does without both.")
  endif()
  add_library(isomer_sqlite INTERFACE)
  target_include_directories(isomer_sqlite SYSTEM INTERFACE ${ISOMER_SQLITE_INCLUDE})
  target_link_libraries(isomer_sqlite INTERFACE ${ISOMER_SQLITE_LIBRARY})
endif()
