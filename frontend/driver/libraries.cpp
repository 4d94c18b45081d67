#include "frontend/driver/libraries.h"
#include "frontend/diagnostics.h"
#include "frontend/error.h"
#include "llvm/Support/Path.h"
#include <filesystem>

namespace tcc::driver {
namespace {

bool printsInstead(const Options &options) {
  return !options.emissions.empty() || options.graphBreaks;
}

} // namespace

std::optional<LibraryKind> libraryOf(const Options &options) {
  if (printsInstead(options))
    return std::nullopt;
  return options.asObject ? LibraryKind::object : libraryKind(options.output);
}

void checkLibraryOptions(const Options &options) {
  if (options.asObject && printsInstead(options))
    throw usageError("-c with something that is printed instead; give one of them");
  if (options.asObject && !options.output.empty() && libraryKind(options.output) != LibraryKind::object)
    throw usageError("-c writes an object file, and -o " + options.output + " names none; FILE.o is expected");
  // A device or a pipe has no suffix to go by.
  std::error_code ignored;
  const bool isArtefact = options.output == "-" || llvm::StringRef(options.output).ends_with(".tcc") ||
                          std::filesystem::is_other(options.output, ignored);
  if (!options.output.empty() && !printsInstead(options) && !options.asObject && !isArtefact && !libraryOf(options))
    throw usageError("-o " + options.output +
                     " says not what to write; a name that ends in .so, .a or .o (a library "
                     "with its header) or in .tcc (an artefact) is expected");
  if (options.staticRuntime && libraryOf(options) != LibraryKind::shared)
    throw usageError("--static puts the runtime inside a shared library; it needs -o FILE.so");
}

std::string libraryPath(const Options &options, const std::string &input) {
  return options.output.empty() ? llvm::sys::path::stem(input == "-" ? "stdin" : input).str() + ".o" : options.output;
}

void writeLibrary(const Options &options, const std::string &path, llvm::ArrayRef<runtime::Artefact> steps) {
  if (runtime::Error problem =
          tcc::writeLibrary(steps, path, {.kind = *libraryOf(options), .hasRuntime = options.staticRuntime}))
    throw Error(problem.message());
}

} // namespace tcc::driver
