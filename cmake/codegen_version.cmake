# codegen_version.h: a digest of the sources that decide what code a kernel becomes. Times that were measured with other code are
# worth nothing, and nobody remembers to count a number up.
#
# As a script (-P): -D FILES=a;b -D OUTPUT=codegen_version.h
if(CMAKE_SCRIPT_MODE_FILE)
  set(all "")
  foreach(file ${FILES})
    file(SHA256 ${file} digest)
    string(APPEND all ${digest})
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING ${digest} 0 16 digest)
  file(WRITE ${OUTPUT} "#define ISOMER_CODEGEN_DIGEST \"${digest}\"\n")
  return()
endif()

function(isomer_codegen_version target)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/codegen/llvm/*.cc ${PROJECT_SOURCE_DIR}/src/codegen/llvm/*.h
    ${PROJECT_SOURCE_DIR}/src/loop/intrinsics.cc ${PROJECT_SOURCE_DIR}/src/runtime/pool.c)
  list(SORT files)
  set(header ${CMAKE_BINARY_DIR}/generated/codegen/codegen_version.h)
  set(script ${PROJECT_SOURCE_DIR}/cmake/codegen_version.cmake)
  add_custom_command(OUTPUT ${header} DEPENDS ${files} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D "FILES=${files}" -D OUTPUT=${header} -P ${script})
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated/codegen)
endfunction()
