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

# One precompiled header for everything that includes MLIR.
add_library(tcc_mlir_pch STATIC ${PROJECT_SOURCE_DIR}/cmake/mlir_pch.cpp)
target_link_libraries(tcc_mlir_pch PUBLIC tcc_mlir)
target_precompile_headers(tcc_mlir_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/mlir_pch.h)

# tcc_mlir_library(name SOURCES... [DEPENDS targets...]): a static library that includes MLIR.
function(tcc_mlir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES ${TCC_BATCH})
  target_link_libraries(${name} PUBLIC tcc_mlir ${ARG_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM tcc_mlir_pch)
endfunction()

# tcc_mlir_program(name SOURCES... [DEPENDS targets...]): a program that includes MLIR.
function(tcc_mlir_program name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tcc_mlir ${ARG_DEPENDS})
  tcc_reuse_pch(${name})
endfunction()

# Programs are compiled like libraries (-fPIC instead of -fPIE), so that they can use the precompiled header.
function(tcc_reuse_pch name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM tcc_mlir_pch)
endfunction()

# tcc_mlir_test(name SOURCES... [DEPENDS targets...]): a GoogleTest program that includes MLIR.
function(tcc_mlir_test name)
  tcc_test(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tcc_mlir)
  tcc_reuse_pch(${name})
endfunction()
