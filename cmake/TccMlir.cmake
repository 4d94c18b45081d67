# MLIR 22 and LLVM 22, linked as their two shared objects; never their static twins (both at once abort).
include_guard()

if(NOT MLIR_DIR AND EXISTS /usr/lib/llvm-22/lib/cmake/mlir)
  set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir)
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "MLIR ${LLVM_VERSION} was found; tcc needs MLIR 22 (Debian: libmlir-22-dev mlir-22-tools)")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(tcc_mlir INTERFACE)
target_include_directories(tcc_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(tcc_mlir INTERFACE tcc_settings MLIR LLVM)

# Precompiled headers for everything that includes MLIR. They hold the dialect: what TableGen writes comes first.
tcc_precompiled(tcc_precompiled_mlir mlir.h)
target_link_libraries(tcc_precompiled_mlir PUBLIC tcc_mlir)
add_dependencies(tcc_precompiled_mlir tcc_ir_tablegen tcc_op_list)
if(TCC_TESTS)
  tcc_precompiled(tcc_precompiled_mlir_test mlir_test.h ${TCC_TEST_OPTIONS})
  target_link_libraries(tcc_precompiled_mlir_test PUBLIC tcc_mlir GTest::gtest)
  add_dependencies(tcc_precompiled_mlir_test tcc_ir_tablegen tcc_op_list)
endif()

# tcc_mlir_library(name SOURCES... [DEPENDS targets...]): a static library that includes MLIR.
function(tcc_mlir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES ${TCC_BATCH})
  target_link_libraries(${name} PUBLIC tcc_mlir ${ARG_DEPENDS})
  tcc_reuse_precompiled(${name} tcc_precompiled_mlir)
endfunction()

# tcc_mlir_program(name SOURCES... [DEPENDS targets...]): a program that includes MLIR.
function(tcc_mlir_program name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tcc_mlir ${ARG_DEPENDS})
  tcc_reuse_precompiled(${name} tcc_precompiled_mlir)
endfunction()

# tcc_mlir_test(name SOURCES... [DEPENDS targets...]): a GoogleTest program that includes MLIR.
function(tcc_mlir_test name)
  tcc_test_program(${name} tcc_precompiled_mlir_test ${ARGN})
  target_link_libraries(${name} PRIVATE tcc_mlir)
endfunction()
