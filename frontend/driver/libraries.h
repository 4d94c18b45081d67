// -o step.so, step.o, step.a and -c: compiled steps as libraries, each with its header.
#pragma once
#include "frontend/driver/options.h"
#include "runtime/artefact.h"

namespace tcc::driver {

/// The kind of library that -o (or -c) asks for. Nothing if the options print something instead, ask for an artefact,
/// or ask for no file.
std::optional<LibraryKind> libraryOf(const Options &options);

/// Throws Error where -o names neither an artefact (.tcc, or - for stdout) nor a library, or where options for
/// libraries alone go with something else.
void checkLibraryOptions(const Options &options);

/// The library that the steps of an input go to; with -o all inputs have one.
std::string libraryPath(const Options &options, const std::string &input);

/// Writes it and its header, or neither. Throws Error.
void writeLibrary(const Options &options, const std::string &path, llvm::ArrayRef<runtime::Artefact> steps);

} // namespace tcc::driver
