// tcc_program: a compiled step that nobody has loaded yet.
#pragma once
#include "c_api/tcc_runtime.h"
#include "runtime/artefact.h"

namespace tcc::c {

inline constexpr uint32_t programVersion = 1;

/// The kernels of one part of an artefact, sorted by symbol. There are none if the part's code is in the bytes of the
/// artefact, as for a GPU.
struct LinkedPart {
  const runtime::LinkedKernel *kernels;
  uint64_t count;
};

} // namespace tcc::c

/// What a step's object file has as data (codegen/library/step_object.cpp writes it), and what tcc_open makes of a
/// file.
struct tcc_program {
  uint32_t version;     ///< programVersion
  uint32_t parts;       ///< how many parts the artefact has
  const char *artefact; ///< its bytes, which begin at a multiple of 64
  uint64_t artefactBytes;
  const tcc::c::LinkedPart *linked; ///< one for each part; null: no kernels are linked
  uint64_t signature;               ///< a digest of its tensors' names, types and shapes; 0: none
};

namespace tcc::c {

/// Reads a file for tcc_open; the caller owns the program. Errors as of readArtefact.
runtime::Expected<tcc_program *> openProgram(const std::string &path);
/// Deletes a program of openProgram(). Any other program stays as it is.
void closeProgram(tcc_program *program);

/// The artefact of a program, verified, with the kernels that are linked in. Errors: another version, damaged bytes.
runtime::Expected<runtime::Artefact> artefactOf(const tcc_program &program);

} // namespace tcc::c
