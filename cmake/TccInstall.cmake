# What is installed: two shared libraries whose exported names are ours alone, the programs, headers, CMake and
# pkg-config files, a man page, completion; and the Debian packages of it. Components: runtime, compiler, dev, openmpi, mpich, and
# command, the name `tcc` for the program `tcc-graph`, which Debian gives to another package.
include_guard()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
foreach(package fmt Threads nlohmann_json CLI11)
  find_package(${package} REQUIRED)
endforeach()
if(TCC_COMPILER)
  find_package(ZLIB REQUIRED)
endif()

set(TCC_INSTALL_FOLDER ${PROJECT_BINARY_DIR}/install)
set(TCC_INSTALL_SOURCES ${PROJECT_SOURCE_DIR}/cmake/install)
set(TCC_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # before 1.0 each minor version has an ABI of its own

# tcc_shared_library(target name component PARTS libraries... LINKS libraries...): the objects of our static libraries
# `parts` as lib`name`.so; tcc::`export` to others.
function(tcc_shared_library target name export component)
  cmake_parse_arguments(ARG "" "" "PARTS;LINKS" ${ARGN})
  add_library(${target} SHARED)
  foreach(part ${ARG_PARTS})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
  endforeach()
  target_link_libraries(${target} PRIVATE ${ARG_LINKS})
  target_compile_features(${target} INTERFACE cxx_std_20)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${export} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${TCC_SOVERSION} LIBRARY_OUTPUT_DIRECTORY ${TCC_INSTALL_FOLDER}/lib
    INSTALL_RPATH "${TCC_INSTALL_RPATH}" LINK_DEPENDS ${TCC_INSTALL_SOURCES}/exports.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${TCC_INSTALL_SOURCES}/exports.map
    -Wl,--no-undefined)
  install(TARGETS ${target} EXPORT tccTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT dev
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

# tcc_installed_program(target name SOURCES... PARTS libraries... LINKS libraries...)
function(tcc_installed_program target name)
  cmake_parse_arguments(ARG "" "" "PARTS;LINKS" ${ARGN})
  add_executable(${target} ${ARG_UNPARSED_ARGUMENTS})
  foreach(part ${ARG_PARTS})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
  endforeach()
  target_link_libraries(${target} PRIVATE tcc_settings ${ARG_LINKS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${TCC_INSTALL_FOLDER}/bin
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
endfunction()

# tcc_pkg_config(name library description requires)
function(tcc_pkg_config name library description requires)
  # The prefix may be another one than that of the configuration.
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  configure_file(${TCC_INSTALL_SOURCES}/tcc.pc.in ${TCC_INSTALL_FOLDER}/${name}.pc @ONLY)
  install(FILES ${TCC_INSTALL_FOLDER}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

# 1. The runtime: artefacts, also on GPUs. No LLVM.
set(TCC_INSTALL_RPATH "$ORIGIN")
tcc_shared_library(tcc_runtime_shared tcc-graph-runtime runtime runtime PARTS tcc_runtime tcc_cuda tcc_cuda_step
  LINKS gomp ${CMAKE_DL_LIBS})
tcc_pkg_config(tcc-runtime tcc-graph-runtime "runs compiled training steps, without a compiler" "")
# The same for C and for step libraries (c_api/): libtcc_runtime.so exports tcc_* alone.
set_target_properties(tcc_step_shared PROPERTIES EXPORT_NAME c_runtime)
set_target_properties(tcc_step PROPERTIES EXPORT_NAME c_runtime_static)
install(TARGETS tcc_step_shared EXPORT tccTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tcc_step ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/c_api/tcc_runtime.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tcc COMPONENT dev)
tcc_pkg_config(tcc-c-runtime tcc_runtime "runs compiled training steps from C" "")
set(starts runtime/include/tcc/runtime.h)
file(GLOB plain RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS runtime/tcc_*.h) # in plain C
list(APPEND starts ${plain})

# 2. The compiler and its programs.
if(TCC_COMPILER)
  set(TCC_INSTALL_RPATH "$ORIGIN;${LLVM_LIBRARY_DIRS}")
  tcc_shared_library(tcc_shared tcc-graph tcc compiler
    PARTS tcc_ir tcc_reference tcc_passes tcc_cpu tcc_cuda_kernel tcc_cuda_device tcc_cuda_attention tcc_codegen tcc_flags
          tcc_files tcc_pictures tcc_trace tcc_report tcc_frontend tcc_driver
    LINKS tcc_runtime_shared MLIR LLVM ${TCC_LLD_ELF} ${TCC_LLD_COMMON} ZLIB::ZLIB ${TCC_ZSTD} fmt::fmt)
  tcc_pkg_config(tcc tcc-graph "a compiler for the training of GPT models" tcc-runtime)
  list(APPEND starts frontend/include/tcc/tcc.h)
  tcc_installed_program(tcc_program tcc-graph ${PROJECT_SOURCE_DIR}/frontend/driver/main.cpp LINKS tcc_shared)
  tcc_installed_program(train_gpt_program train_gpt ${PROJECT_SOURCE_DIR}/models/train_gpt.cpp PARTS tcc_models tcc_models_io
    LINKS tcc_shared tcc_runtime_shared LLVM fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 Threads::Threads ${TCC_ONIGURUMA} ${TCC_UTF8PROC})
  target_compile_definitions(train_gpt_program PRIVATE TCC_VERSION="${PROJECT_VERSION}")

  set(page ${TCC_INSTALL_FOLDER}/tcc-graph.1.gz)
  add_custom_command(OUTPUT ${page} COMMAND sh -c "\"$<TARGET_FILE:tcc>\" --man-page | gzip -9n > ${page}" DEPENDS tcc VERBATIM)
  add_custom_target(tcc_man_page ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT compiler)
  set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${TCC_INSTALL_SOURCES}/completion.bash DESTINATION ${completions} RENAME tcc-graph COMPONENT compiler)

  # The short name, where no other package has it.
  function(tcc_link folder name target)
    file(CREATE_LINK ${target} ${TCC_INSTALL_FOLDER}/links/${name} SYMBOLIC)
    install(FILES ${TCC_INSTALL_FOLDER}/links/${name} DESTINATION ${folder} COMPONENT command)
  endfunction()
  file(MAKE_DIRECTORY ${TCC_INSTALL_FOLDER}/links/completion)
  tcc_link(${CMAKE_INSTALL_BINDIR} tcc tcc-graph)
  tcc_link(${CMAKE_INSTALL_MANDIR}/man1 tcc.1.gz tcc-graph.1.gz)
  file(CREATE_LINK tcc-graph ${TCC_INSTALL_FOLDER}/links/completion/tcc SYMBOLIC)
  install(FILES ${TCC_INSTALL_FOLDER}/links/completion/tcc DESTINATION ${completions} COMPONENT command)
endif()

# 3. Headers and CMake files.
set(headers ${TCC_INSTALL_FOLDER}/include)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DROOTS=${PROJECT_SOURCE_DIR};${PROJECT_BINARY_DIR}\"
  \"-DSTARTS=${starts}\" \"-DOUT=${headers}\" -P \"${TCC_INSTALL_SOURCES}/public_headers.cmake\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT dev)
install(DIRECTORY ${headers}/tcc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
set(place ${CMAKE_INSTALL_LIBDIR}/cmake/tcc)
install(EXPORT tccTargets NAMESPACE tcc:: DESTINATION ${place} COMPONENT dev)
configure_package_config_file(${TCC_INSTALL_SOURCES}/tccConfig.cmake.in ${TCC_INSTALL_FOLDER}/tccConfig.cmake
  INSTALL_DESTINATION ${place})
write_basic_package_version_file(${TCC_INSTALL_FOLDER}/tccConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${TCC_INSTALL_FOLDER}/tccConfig.cmake ${TCC_INSTALL_FOLDER}/tccConfigVersion.cmake DESTINATION ${place}
  COMPONENT dev)

if(TCC_COMPILER AND PROJECT_IS_TOP_LEVEL)
  include(TccPackage)
endif()
