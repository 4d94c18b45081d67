// A .pt2 file is read by PyTorch alone, so a Python that has the package runs `python3 -m tcc.torch.exported FILE`. Its
// standard output is the graph; where there is none, the last line of what it says otherwise is the reason.
#include "frontend/driver/exported_program.h"
#include "frontend/driver/driver.h"
#include "runtime/files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include <cstdlib>

namespace tcc::driver {
namespace {

constexpr int refused = 3; // the status by which the package says that the program is not for graphs

/// A file that is removed with its owner.
struct Scratch {
  llvm::SmallString<128> path;
  Scratch() {
    if (std::error_code problem = llvm::sys::fs::createTemporaryFile("tcc-exported", "txt", path))
      throw Error("cannot create a temporary file: " + problem.message());
  }
  ~Scratch() { llvm::sys::fs::remove(path); }
  std::string read() const { return orThrow(runtime::readFile(path.str().str())); }
};

/// The last line that is not empty: after warnings of libraries comes what the package says.
std::string lastLine(llvm::StringRef text) {
  text = text.trim();
  return text.substr(text.rfind('\n') + 1).str();
}

} // namespace

bool isExportedProgram(const std::string &path) {
  return llvm::StringRef(path).ends_with(".pt2");
}

std::string graphOfExportedProgram(const std::string &path) {
  int file = -1;
  if (std::error_code problem = llvm::sys::fs::openFileForRead(path, file))
    throw Error("cannot read '" + path + "': " + problem.message());
  llvm::sys::Process::SafelyCloseFileDescriptor(file);
  const char *named = std::getenv("TCC_PYTHON");
  const std::string python = named && *named ? named : "python3";
  const std::string needs = "reading '" + path +
                            "', a program of torch.export, needs a Python with tcc-graph and torch " +
                            "(pip install tcc-graph torch), which TCC_PYTHON names: ";
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(python);
  if (!program)
    throw Error(needs + "there is no program '" + python + "'");
  const Scratch out, said;
  const std::optional<llvm::StringRef> streams[] = {llvm::StringRef(), out.path.str(), said.path.str()};
  const int status =
      llvm::sys::ExecuteAndWait(*program, {*program, "-m", "tcc.torch.exported", path}, std::nullopt, streams);
  if (status == refused)
    throw Error("'" + path + "' cannot be a graph: " + lastLine(said.read()));
  if (status != 0)
    throw Error(needs + lastLine(said.read()));
  return out.read();
}

} // namespace tcc::driver
