// Outputs: their paths, their identity, their writing.
#include "frontend/driver/outputs.h"
#include "frontend/diagnostics.h"
#include "frontend/driver/driver.h"
#include "frontend/shape.h"
#include "runtime/files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

namespace tcc::driver {
namespace {

std::string stem(const std::string &input) {
  return llvm::sys::path::stem(input == "-" ? "stdin" : input).str();
}

} // namespace

std::string objectPath(const std::string &input) {
  return stem(input) + ".o";
}

std::string dumpPath(const std::string &folder, const std::string &input) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, stem(input) + ".ir");
  return path.str().str();
}

runtime::Error checkFiles(const Options &options) {
  runtime::FileUses files;
  files.standardStreams(/*readsInput=*/llvm::is_contained(options.inputs, "-"));
  for (const std::string &path : options.responseFiles)
    files.reads("@" + path, path);
  for (const std::string &path : options.inputs)
    if (path != "-")
      files.reads(path, path);
  for (const auto &[name, path] : options.inputFiles)
    files.reads("--input " + name + "=" + path, path);

  if (!options.output.empty() && options.output != "-")
    files.writes("-o " + options.output, options.output);
  for (const std::string &input : options.inputs) {
    if (options.output.empty() && llvm::is_contained(options.emissions, Emission::object))
      files.writes(objectPath(input) + " of -c " + input, objectPath(input));
    if (!options.dumpFolder.empty())
      files.writes(dumpPath(options.dumpFolder, input) + " of -fdump-dir= and " + input,
                   dumpPath(options.dumpFolder, input));
  }
  for (const auto &[name, path] : options.outputFiles)
    files.writes("--output " + name + "=" + path, path);
  if (!options.profile.empty())
    files.writes("--profile=" + options.profile, options.profile);
  return files.check();
}

void writeResult(const std::string &path, llvm::StringRef bytes) {
  if (path.empty() || path == "-")
    llvm::outs() << bytes;
  else if (runtime::Error error = runtime::writeFileAtomically(path, {bytes.data(), bytes.size()}))
    throw Error(error.message());
}

int finishStdout(int status) {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (out.has_error()) {
    DiagnosticPrinter(llvm::errs(), useColor("auto"))
        .print(Severity::error, "cannot write to stdout: " + out.error().message());
    status = std::max<int>(status, exitDiagnosed);
  }
  // LLVM would end the process over an error that nobody has seen to.
  out.clear_error();
  static_cast<llvm::raw_fd_ostream &>(llvm::errs()).clear_error();
  return status;
}

} // namespace tcc::driver
