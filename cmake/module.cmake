# Declares modules (src/NAME), tools (tools/NAME) and benchmarks. Nothing else in the tree calls add_library.

# isomer_module(NAME te DEPS tensor [LINK fmt::fmt ...] [PRIVATE_LINK ...] [COLD|ELEMENTS] [TOGETHER N [ALONE file ...]])
#
# All of src/NAME/*.cc, src/NAME/*/*.cc and src/NAME/*.c becomes the static library isomer_NAME; the include root is src/.
# DEPS are modules. LINK reaches the users of the module; PRIVATE_LINK stays inside, for owners of third-party code.
# COLD code runs once per node of a model or command, never per element, nor per graph of a search: a release builds it at -O1, which
# saves a third of its time.
# ELEMENTS: code that runs per element, the only one that a sanitized build optimises: the others take a third of the time.
# TOGETHER compiles N sources as one: most of the time of a small source goes into the headers that its neighbours want
# too. Sources in ALONE have names in their unnamed namespaces that others have as well; one that newly does ("redefinition
# of ...") renames them or joins the list. The debug preset compiles every source by itself.
# The headers of the library and of fmt, which nearly every source wants, are compiled once for all modules with the same flags.
# A module whose folder is not there yet is skipped, and so are arrows to it.
function(isomer_module)
  cmake_parse_arguments(arg "COLD;ELEMENTS" "NAME;TOGETHER" "DEPS;LINK;PRIVATE_LINK;ALONE" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/src/${arg_NAME})
  if(NOT EXISTS ${folder})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*/*.cc ${folder}/*.c)
  set(target isomer_${arg_NAME})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(reach PUBLIC)
    target_link_libraries(${target} PRIVATE isomer_warnings ${arg_PRIVATE_LINK})
    set(flags "")
    if(ISOMER_SANITIZE AND NOT arg_ELEMENTS)
      set(flags -O0)
    elseif(arg_COLD)
      set(flags $<$<CONFIG:Release>:-O1>)
    endif()
    target_compile_options(${target} PRIVATE ${flags})
    if(arg_TOGETHER AND ISOMER_TOGETHER)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${arg_TOGETHER})
      list(TRANSFORM arg_ALONE PREPEND ${folder}/)
      set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    # LLVM's own definitions would make other headers of them.
    if("${sources}" MATCHES "\\.cc" AND NOT "isomer_llvm" IN_LIST arg_PRIVATE_LINK)
      isomer_common_headers(${target} "${flags}")
    endif()
  else()
    add_library(${target} INTERFACE)  # headers only so far
    set(reach INTERFACE)
  endif()
  target_include_directories(${target} ${reach} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} ${reach} ${arg_LINK})
  foreach(dep ${arg_DEPS})
    if(TARGET isomer_${dep})
      target_link_libraries(${target} ${reach} isomer_${dep})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ISOMER_MODULES ${arg_NAME})
endfunction()

# The first module with its flags compiles the headers, the others use what it made. In builds where every source
# stands by itself it shall also bring its own headers.
function(isomer_common_headers target flags)
  if(NOT ISOMER_TOGETHER)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY "ISOMER_HEADERS_${flags}")
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cstdint> <cstring> <functional> <map> <memory> <optional>
    <set> <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/format.h>)
  set_property(GLOBAL PROPERTY "ISOMER_HEADERS_${flags}" ${target})
endfunction()

# A source with flags of its own, which headers that were compiled with others do not fit.
function(isomer_source_flags source)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# All declared modules as link targets, topmost first.
function(isomer_all_modules out)
  get_property(names GLOBAL PROPERTY ISOMER_MODULES)
  list(TRANSFORM names PREPEND isomer_)
  list(REVERSE names)
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# tools/NAME/*.cc becomes the executable NAME at the top of the build folder. A command's code runs once and is nearly all of it
# the instantiation of two large libraries: the libraries' headers are compiled once, and so are several commands together. It is
# optimised a little: of templates that modules have too the linker takes the first, which are these.
function(isomer_tool name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  isomer_all_modules(modules)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(${name} PRIVATE
    isomer_warnings ${modules} isomer_build_info isomer_malloc CLI11::CLI11 nlohmann_json::nlohmann_json)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(${name} PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp> <fmt/format.h>)
  if(ISOMER_TOGETHER)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

# Each FOLDER/*.cc becomes one benchmark executable under bench/ of the build folder. They are never run by ctest. What they time is in
# the modules; their own code is not optimised.
function(isomer_benchmarks folder)
  if(NOT benchmark_FOUND)
    return()
  endif()
  isomer_all_modules(modules)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} ${source})
    target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(bench_${name} PRIVATE ISOMER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(bench_${name} PRIVATE isomer_warnings ${modules} isomer_malloc benchmark::benchmark_main)
    target_compile_options(bench_${name} PRIVATE $<$<CONFIG:Release>:-O0>)
    set_target_properties(bench_${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench OUTPUT_NAME ${name})
  endforeach()
endfunction()
