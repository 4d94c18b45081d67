// The object file of a step library: the artefact, tables of its kernels, and its functions.
#pragma once
#include "runtime/artefact.h"

namespace tcc {

/// The bytes of an ELF object. Errors: an artefact that cannot be serialised; kernels that cannot be used where they
/// lie, since their addresses are known at load time alone.
runtime::Expected<std::string> stepObject(const runtime::Artefact &step);

/// An object that defines each function of the runtime that a step's object calls, empty.
runtime::Expected<std::string> runtimeImportObject();

} // namespace tcc
