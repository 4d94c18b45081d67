// A .pt2 file is read by PyTorch alone, so a Python that has the package runs `python3 -m tcc.torch.exported FILE`. Its
// standard output is the graph; where there is none, the last line of what it says otherwise is the reason. Values come
// in a safetensors file, which the package writes where a second path tells it to.
#include "frontend/driver/exported_program.h"
#include "frontend/driver/driver.h"
#include "frontend/graph_file.h"
#include "frontend/graph_scan.h"
#include "frontend/tensor_files.h"
#include "runtime/files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <cstring>

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

ProgramText readExported(const std::string &path, bool wantsValues) {
  int file = -1;
  if (std::error_code problem = llvm::sys::fs::openFileForRead(path, file))
    throw Error("cannot read '" + path + "': " + problem.message());
  llvm::sys::Process::SafelyCloseFileDescriptor(file);
  const char *named = std::getenv("TCC_PYTHON");
  const std::string python = named && *named ? named : "python3";
  const std::string needs = "reading '" + path +
                            "', a program of torch.export, needs a Python with tcc-graph and torch " +
                            "(pip install tcc-graph torch safetensors), which TCC_PYTHON names: ";
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(python);
  if (!program)
    throw Error(needs + "there is no program '" + python + "'");
  const Scratch out, said, values;
  const std::optional<llvm::StringRef> streams[] = {llvm::StringRef(), out.path.str(), said.path.str()};
  llvm::SmallVector<llvm::StringRef> command = {*program, "-m", "tcc.torch.exported", path};
  if (wantsValues)
    command.push_back(values.path);
  std::string problem;
  const int status = llvm::sys::ExecuteAndWait(*program, command, std::nullopt, streams, 0, 0, &problem);
  if (status == refused)
    throw Error("'" + path + "' cannot be a graph: " + lastLine(said.read()));
  if (status != 0)
    throw Error(needs + (problem.empty() ? lastLine(said.read()) : "'" + python + "' did not start: " + problem));
  ProgramText made;
  made.text = out.read();
  if (wantsValues)
    made.values.emplace(values.path.str().str()); // mapped: it stays readable when its name is gone
  return made;
}

} // namespace

ProgramText readProgram(const std::string &path, const Options &options) {
  const bool runs =
      options.runs || options.benchRuns || options.reference || options.ablationRounds || options.graphBreaks;
  if (llvm::StringRef(path).ends_with(".pt2"))
    return readExported(path, runs);
  return {orThrow(readText(path, GraphLimits().bytes)), std::nullopt};
}

void addValues(const SafetensorsFile &file, const std::vector<runtime::TensorSpec> &arguments,
               std::map<std::string, Array> &given) {
  std::vector<runtime::TensorSpec> wanted;
  for (const runtime::TensorSpec &argument : arguments)
    if (file.find(argument.name) && !given.contains(argument.name))
      wanted.push_back(argument);
  const std::vector<std::span<const std::byte>> bytes = valuesOf(file, wanted, Others::ignored);
  for (size_t i = 0; i < wanted.size(); ++i) {
    Array array = Array::uninitialized(Shape(wanted[i].shape), wanted[i].dtype);
    if (!bytes[i].empty())
      std::memcpy(array.raw(), bytes[i].data(), bytes[i].size());
    given.emplace(wanted[i].name, std::move(array));
  }
}

} // namespace tcc::driver
