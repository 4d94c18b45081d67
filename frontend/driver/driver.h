// What tcc does for each input, and its exit statuses.
#pragma once
#include "frontend/driver/options.h"
#include "frontend/error.h"

namespace tcc::driver {

enum ExitStatus : int { exitSuccess = 0, exitDiagnosed = 1, exitUsage = 2, exitInternal = 70 };

/// The value; throws its error if there is none.
template <typename T>
T orThrow(runtime::Expected<T> made) {
  if (!made)
    throw Error(made.error().message());
  return std::move(*made);
}

/// Compiles, prints, writes or runs one input; a step for a library is added to `steps` instead. Gives the exit status.
/// Mistakes of the user's are printed and not thrown.
int processInput(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps);

/// Whether a file is an artefact, or a library with one, by its first bytes.
bool isArtefact(const std::string &path);
/// Says what an artefact holds, runs it, or adds it to `steps`.
int processArtefact(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps);

/// Prints what the machine has and lacks. Gives 1 if something is missing that compiling needs, else 0.
int runDoctor(llvm::raw_ostream &os);
/// Prints --help, or one category of it. Throws Error if there is no category of that name.
void printHelp(llvm::raw_ostream &os, llvm::StringRef category);
/// The same as a page for man.
void printManPage(llvm::raw_ostream &os);
void printVersion(llvm::raw_ostream &os);

inline constexpr const char *versionText = TCC_VERSION; // of CMakeLists.txt

/// Lets a crash write `text` (command line and graph) to a file, print its path and exit with 70, from now on.
void armReproducer(std::string text);
/// Writes the text and prints the path at once, and returns 70.
int internalError(const std::string &message);

} // namespace tcc::driver
