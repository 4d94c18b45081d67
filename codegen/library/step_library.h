// Step libraries: a compiled step as step.o, step.a or step.so, with a C header, for programs that have no compiler.
//
// The object holds the bytes of the artefact, unchanged, in a section of its own (runtime/elf_section.h), so that a
// library can be read as an artefact too. The kernels are used where they lie in it: tables of their addresses, and
// small functions that call the C runtime (c_api/tcc_runtime.h), are all that is added.
#pragma once
#include "runtime/artefact.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace tcc {

enum class LibraryKind : uint8_t { object, archive, shared };

/// By the suffix of a path, ".o", ".a" or ".so"; none for another.
std::optional<LibraryKind> libraryKind(llvm::StringRef path);

/// What the names of a step's functions begin with: the name of its graph's function as a C identifier.
std::string libraryPrefix(const runtime::Artefact &artefact);

/// The text of the header: the functions of these steps, and all of tcc_runtime.h. `file` is its name, for its guard.
/// Errors: two steps of one name; a name that is the runtime's.
runtime::Expected<std::string> libraryHeader(llvm::ArrayRef<runtime::Artefact> steps, llvm::StringRef file);

/// The path of a library's header: step.h beside step.so.
std::string headerPath(llvm::StringRef library);

/// Puts the parts that need most of a machine first, since the first that a machine can run is taken.
void sortByNeeds(runtime::Artefact &step);

struct LibraryOptions {
  LibraryKind kind = LibraryKind::shared;
  /// Whether libtcc_step.a is put inside a shared library; else it needs libtcc_runtime.so.0, which is looked for
  /// beside it, where this program has it, and where the system's libraries are.
  bool hasRuntime = false;
  /// A shared library's SONAME: what programs that are linked with it look for. Empty: none.
  std::string name = {};
};

/// The bytes of the library. Errors: those of libraryHeader; machine code that cannot be used in place; what LLD says.
runtime::Expected<std::string> makeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const LibraryOptions &options);

/// Writes the library and its header: neither gets its name before both are complete. Errors: those of makeLibrary; a
/// file that cannot be written; a header in its place that tcc has not written.
runtime::Error writeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const std::string &path,
                            const LibraryOptions &options);

} // namespace tcc
