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

/// The kind that the suffix of a path names: ".o", ".a" or ".so". Nothing for another suffix.
std::optional<LibraryKind> libraryKind(llvm::StringRef path);

/// What the names of a step's functions begin with: the name of its graph's function as a C identifier.
std::string libraryPrefix(const runtime::Artefact &artefact);

/// The text of the header: the functions of these steps, and all of tcc_runtime.h. `file` is the header's name, from
/// which its include guard is made. Errors: two steps have one name; a step has a name that belongs to the runtime.
runtime::Expected<std::string> libraryHeader(llvm::ArrayRef<runtime::Artefact> steps, llvm::StringRef file);

/// The path of a library's header: step.h beside step.so.
std::string headerPath(llvm::StringRef library);

/// Sorts the parts of a step so that those which need the most CPU features come first, since a machine takes the first
/// part that it can run.
void sortByNeeds(runtime::Artefact &step);

struct LibraryOptions {
  LibraryKind kind = LibraryKind::shared;
  /// Whether libtcc_step.a is put inside a shared library. If not, the library needs libtcc_runtime.so.0, which is
  /// looked for beside the library, where this program has it, and where the system's libraries are.
  bool hasRuntime = false;
  /// The SONAME of a shared library, under which programs that are linked with it look for it. Empty: none.
  std::string name = {};
};

/// The bytes of the library. Errors: those of libraryHeader; machine code that cannot be used in place; what LLD says.
runtime::Expected<std::string> makeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const LibraryOptions &options);

/// Writes the library and its header. Neither gets its name before both are complete. Errors: those of makeLibrary; a
/// file cannot be written; a header exists that was not written by tcc.
runtime::Error writeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const std::string &path,
                            const LibraryOptions &options);

} // namespace tcc
