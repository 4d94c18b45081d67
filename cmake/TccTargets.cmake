# Settings that every target of the project shares, and the two ways to declare a library or a test.
include_guard()

find_program(TCC_CCACHE ccache)
if(TCC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache accepts precompiled headers only when it may trust their defines and time stamps.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TCC_CCACHE})
endif()

add_library(tcc_settings INTERFACE)
target_include_directories(tcc_settings INTERFACE ${PROJECT_SOURCE_DIR})
# Generated code lives in the build folder; its warnings are not ours.
target_include_directories(tcc_settings SYSTEM INTERFACE ${PROJECT_BINARY_DIR})
target_compile_features(tcc_settings INTERFACE cxx_std_20)
# The flags below are ours alone: a project around this one has not the property (see the top CMakeLists.txt).
set(TCC_OWN $<BOOL:$<TARGET_PROPERTY:TCC_OWN>>)
target_compile_options(tcc_settings INTERFACE
  "$<${TCC_OWN}:-Wall;-Wextra;-fno-strict-aliasing>" $<$<AND:${TCC_OWN},$<BOOL:${TCC_WERROR}>>:-Werror>)
# g++ 12 sees overlaps, overruns and unset values in inlined standard-library code where there are none.
target_compile_options(tcc_settings INTERFACE
  "$<$<AND:${TCC_OWN},$<CXX_COMPILER_ID:GNU>>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-maybe-uninitialized>")
# clang contracts a product and a sum into one rounding where it may, g++ in ISO C++ does not: a step has the same bits
# whoever compiled the runtime.
target_compile_options(tcc_settings INTERFACE $<${TCC_OWN}:-ffp-contract=off>)
# clang, of std::stable_sort in g++ 12's library.
target_compile_options(tcc_settings INTERFACE
  "$<$<AND:${TCC_OWN},$<COMPILE_LANG_AND_ID:CXX,Clang>>:-Wno-deprecated-declarations>")
if(TCC_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(tcc_settings INTERFACE
    "$<$<AND:${TCC_OWN},$<COMPILE_LANGUAGE:CXX>>:SHELL:-Xclang -fno-pch-timestamp>")
elseif(TCC_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tcc_settings INTERFACE $<$<AND:${TCC_OWN},$<COMPILE_LANGUAGE:CXX>>:-fpch-preprocess>)
endif()
# g++ collects its garbage from 1 GB on: about a tenth of the time to compile large files, for at most that much memory.
target_compile_options(tcc_settings INTERFACE
  "$<$<AND:${TCC_OWN},$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:--param=ggc-min-heapsize=1000000>")
if(TCC_SANITIZE)
  target_compile_options(tcc_settings INTERFACE -fsanitize=${TCC_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tcc_settings INTERFACE -fsanitize=${TCC_SANITIZE})
endif()

# tcc_precompiled(name header options...): a library that compiles cmake/precompiled/HEADER, for others to reuse.
# Programs reuse it too, so they are compiled like libraries.
function(tcc_precompiled name header)
  add_library(${name} STATIC ${PROJECT_SOURCE_DIR}/cmake/precompiled/holder.cpp)
  target_link_libraries(${name} PUBLIC tcc_settings)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled/${header})
endfunction()
function(tcc_reuse_precompiled name precompiled)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${precompiled})
endfunction()
# What a test spends its time in is the project, not the test's own code, which is compiled with fewer optimisations.
set(TCC_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)
tcc_precompiled(tcc_precompiled_standard standard.h)
tcc_precompiled(tcc_precompiled_json json.h)
if(TCC_TESTS)
  foreach(kind test json_test)
    tcc_precompiled(tcc_precompiled_${kind} ${kind}.h ${TCC_TEST_OPTIONS})
    target_link_libraries(tcc_precompiled_${kind} PUBLIC GTest::gtest)
  endforeach()
endif()

# Batches of files that are compiled as one: their headers, above all MLIR's, are read once.
set(TCC_BATCH UNITY_BUILD ${TCC_UNITY} UNITY_BUILD_BATCH_SIZE 12)

# tcc_library(name [JSON] SOURCES... [DEPENDS targets...]): a static library without MLIR. JSON: most of its files read or
# write it.
function(tcc_library name)
  cmake_parse_arguments(ARG "JSON" "" "DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES ${TCC_BATCH})
  target_link_libraries(${name} PUBLIC tcc_settings ${ARG_DEPENDS})
  if(ARG_JSON)
    tcc_reuse_precompiled(${name} tcc_precompiled_json)
  else()
    tcc_reuse_precompiled(${name} tcc_precompiled_standard)
  endif()
endfunction()

# tcc_test_program(name precompiled SOURCES... [DEPENDS targets...]): what tcc_test and tcc_mlir_test share.
function(tcc_test_program name precompiled)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tcc_settings ${ARG_DEPENDS} GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${TCC_TEST_OPTIONS})
  tcc_reuse_precompiled(${name} ${precompiled})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# tcc_test(name SOURCES... [DEPENDS targets...]): a GoogleTest program, run by ctest as one test; tcc_json_test: of files
# that read or write JSON.
function(tcc_test name)
  tcc_test_program(${name} tcc_precompiled_test ${ARGN})
endfunction()
function(tcc_json_test name)
  tcc_test_program(${name} tcc_precompiled_json_test ${ARGN})
endfunction()

# tcc_test_at_level(program level arguments...): a test once more, as on a CPU of a level of x86-64 (TCC_CPU) where this
# one has more: `PROGRAM_x86-64-v3`. Whether it has is decided when the test runs.
function(tcc_test_at_level name level)
  add_test(NAME ${name}_${level} COMMAND at_cpu_level ${level} $<TARGET_FILE:${name}> ${ARGN}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name}_${level} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
