# cpack -G DEB: tcc-graph-runtime, tcc-graph (the compiler), tcc-graph-dev, and for runs of several processes
# tcc-graph-openmpi and tcc-graph-mpich, each where its MPI's headers were there. Debian's `tcc` is the Tiny C Compiler, so
# the command is tcc-graph, and `tcc` an alternative.
include_guard()
set(debian ${TCC_INSTALL_SOURCES}/debian)
set(components runtime compiler dev)
foreach(mpi openmpi mpich)
  if(TARGET tcc_ranks_${mpi})
    list(APPEND components ${mpi})
  endif()
endforeach()
foreach(component ${components})
  set(folder tcc-graph-${component})
  if(component STREQUAL compiler)
    set(folder tcc-graph)
  endif()
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${folder})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${folder} RENAME copyright
    COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tcc-graph)
set(CPACK_PACKAGE_VENDOR "tcc")
set(CPACK_PACKAGE_CONTACT "The tcc authors <tcc@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # what other packages' libraries are needed, by their symbols
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TCC_INSTALL_FOLDER}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version ${PROJECT_VERSION})

set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "runs compiled training steps, without a compiler
The libraries libtcc_runtime (C) and libtcc-graph-runtime (C++), which load and
run training steps that tcc has compiled.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)

set(CPACK_COMPONENT_COMPILER_DESCRIPTION "compiler for the training of GPT models
Compiles whole training steps, written as graphs or in C++, to fused machine
code. The command is tcc-graph; tcc is an alternative for it.")
set(CPACK_DEBIAN_COMPILER_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "tcc-graph-runtime (= ${version})")
set(CPACK_DEBIAN_COMPILER_PACKAGE_CONTROL_EXTRA ${debian}/triggers ${debian}/postinst ${debian}/prerm)

set(CPACK_COMPONENT_DEV_DESCRIPTION "headers and CMake files of tcc
For programs in C++ that compile and run training steps: headers, find_package
and pkg-config files.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "tcc-graph (= ${version}), tcc-graph-runtime (= ${version})")

foreach(mpi openmpi mpich)
  string(TOUPPER ${mpi} upper)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "training by several processes, by ${mpi}
What programs of tcc open to exchange gradients between processes that
${mpi} has started.")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "tcc-graph-runtime (= ${version})")
endforeach()
include(CPack)
