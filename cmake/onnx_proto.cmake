# The ONNX schema: finds onnx.proto, generates C++ from it and builds isomer_onnx_proto, whose one header is
# "onnx.pb.h". The file may come from the system, from the Python package, or from -DISOMER_ONNX_PROTO=FILE.
find_file(ISOMER_ONNX_PROTO NAMES onnx.proto onnx-ml.proto PATH_SUFFIXES onnx include/onnx
  DOC "The ONNX schema, onnx.proto or onnx-ml.proto")
if(NOT ISOMER_ONNX_PROTO AND Python3_EXECUTABLE)
  # find_spec does not import the package: its protobuf version is none of our business.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('onnx'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE onnx_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(onnx_package)
    unset(ISOMER_ONNX_PROTO CACHE)
    find_file(ISOMER_ONNX_PROTO NAMES onnx.proto onnx-ml.proto PATHS ${onnx_package} NO_DEFAULT_PATH
      DOC "The ONNX schema, onnx.proto or onnx-ml.proto")
  endif()
endif()
if(NOT ISOMER_ONNX_PROTO)
  message(FATAL_ERROR "No ONNX schema found: install libonnx-dev or the Python package onnx, "
                      "or give the file with -DISOMER_ONNX_PROTO=FILE.")
endif()
file(STRINGS ${ISOMER_ONNX_PROTO} onnx_functions REGEX "repeated FunctionProto functions *=")
if(NOT onnx_functions)
  message(FATAL_ERROR "${ISOMER_ONNX_PROTO} is too old: ModelProto has no field `functions`. "
                      "ONNX 1.10 or newer is needed; give another file with -DISOMER_ONNX_PROTO=FILE.")
endif()

set(onnx_dir ${CMAKE_BINARY_DIR}/onnx_proto)
configure_file(${ISOMER_ONNX_PROTO} ${onnx_dir}/onnx.proto COPYONLY)
add_custom_command(
  OUTPUT ${onnx_dir}/onnx.pb.cc ${onnx_dir}/onnx.pb.h
  COMMAND protobuf::protoc --cpp_out=${onnx_dir} --proto_path=${onnx_dir} onnx.proto
  DEPENDS ${onnx_dir}/onnx.proto
  COMMENT "Generating onnx.pb.cc"
  VERBATIM)
add_library(isomer_onnx_proto STATIC ${onnx_dir}/onnx.pb.cc)
target_include_directories(isomer_onnx_proto SYSTEM PUBLIC ${onnx_dir})
target_link_libraries(isomer_onnx_proto PUBLIC protobuf::libprotobuf)
