// The artefact in an ELF file: a step library (step.so, step.o) has it in a section of its own.
#pragma once
#include "runtime/error.h"
#include <string_view>

namespace tcc::runtime {

/// What the names of such sections begin with; the step's name follows.
inline constexpr std::string_view stepSection = ".tcc.";

/// Whether the bytes begin as those of an ELF file.
bool isElf(std::string_view bytes);

/// Whether they begin as those of an archive of objects.
bool isArchive(std::string_view bytes);

/// The content of the file's only section whose name begins with stepSection. The file is not trusted. Errors: headers
/// that point outside the file; no such section; several of them, whose names the error gives.
Expected<std::string_view> artefactOfElf(std::string_view bytes);

} // namespace tcc::runtime
