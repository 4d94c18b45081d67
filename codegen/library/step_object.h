// The object file of a step library: the artefact, tables of its kernels, and its functions.
#pragma once
#include "runtime/artefact.h"

namespace tcc {

/// The bytes of an ELF object. Errors: the artefact cannot be serialised; its kernels cannot be used where they lie,
/// since they have addresses that are known only at load time.
runtime::Expected<std::string> stepObject(const runtime::Artefact &step);

/// An object that defines, with empty bodies, each function of the runtime that a step's object calls.
runtime::Expected<std::string> runtimeImportObject();

} // namespace tcc
