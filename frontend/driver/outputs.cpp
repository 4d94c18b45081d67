// Which files outputs go to, whether two are the same file, and how they are written.
#include "frontend/driver/outputs.h"
#include "codegen/targets.h"
#include "frontend/diagnostics.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/libraries.h"
#include "frontend/driver/save_temps.h"
#include "frontend/remarks.h"
#include "frontend/shape.h"
#include "runtime/files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace tcc::driver {
namespace {

std::string stem(const std::string &input) {
  return llvm::sys::path::stem(input == "-" ? "stdin" : input).str();
}

/// How an emission to a file is asked for: only -S writes text.
std::string spelling(const KernelEmission &form) {
  return form.isText ? "-S" : "-emit=" + form.name.str();
}

/// Where each bracket of a JSON text is closed; 0 for other bytes.
std::vector<size_t> closings(llvm::StringRef text) {
  std::vector<size_t> ends(text.size()), open;
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (string && c == '\\')
      ++i;
    else if (c == '"')
      string = !string;
    else if (!string && (c == '[' || c == '{'))
      open.push_back(i);
    else if (!string && (c == ']' || c == '}') && !open.empty()) {
      ends[open.back()] = i;
      open.pop_back();
    }
  }
  return ends;
}

} // namespace

std::string codePath(const std::string &input, const CodeEmission &emission, const std::string &architecture,
                     size_t module) {
  const std::string number = emission.form->isNumbered ? "." + architecture + "." + std::to_string(module) : "";
  return stem(input) + number + emission.form->suffix.str();
}

void writeCode(llvm::ArrayRef<EmittedCode> codes, const CodeEmission &emission, const std::string &input,
               const std::string &output) {
  const KernelEmission &form = *emission.form;
  if (form.isText)
    return writeResult(output.empty() && !emission.isPrinted ? codePath(input, emission) : output,
                       emission.kind->shown(form, codes));
  size_t count = 0;
  for (const EmittedCode &code : codes)
    count += code.modules.size();
  if (!output.empty() && count != 1)
    throw Error("-o " + output + " holds one " + form.name.str() + ", and there are " + std::to_string(count) +
                "; without -o each gets a file of its own");
  for (const EmittedCode &code : codes)
    for (auto [i, module] : llvm::enumerate(code.modules)) {
      const std::string file = output.empty() ? codePath(input, emission, code.architecture, i) : output;
      writeResult(file, module);
      if (output.empty() && form.isNumbered)
        llvm::outs() << file << '\n';
    }
}

std::string optimizationRecordFile(const CompilerFlags &flags, const std::string &input) {
  return optimizationRecordPath(flags, stem(input));
}

std::string timeTracePath(const Options &options, const std::string &input) {
  return options.timeTrace->empty() ? stem(input) + ".json" : *options.timeTrace;
}

std::string stagePath(const std::string &folder, const std::string &input, const std::string &suffix) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, stem(input) + suffix);
  return path.str().str();
}

std::string dumpPath(const std::string &folder, const std::string &input) {
  return stagePath(folder, input, ".ir");
}

/// What is written after everything has run.
static runtime::Error checkLateFiles(const Options &options) {
  std::vector<std::pair<std::string, std::string>> late = {
      {"--profile=", options.profile}, {"--plot=", options.plot}, {"--tuning=", options.flags.tuning}};
  if (options.json != "-")
    late.emplace_back("--json=", options.json);
  for (const auto &[name, path] : options.outputFiles)
    late.emplace_back("--output " + name + "=", path);
  if (const std::string &folder = options.flags.reportFolder; !folder.empty()) {
    if (std::error_code error = llvm::sys::fs::create_directories(folder, true, llvm::sys::fs::all_all))
      return runtime::Error("--report=" + folder + ": cannot make folder '" + folder + "': " + error.message());
    late.emplace_back("--report=", folder + "/index.html");
  }
  for (const auto &[option, path] : late)
    if (runtime::Error problem = path == "-" ? runtime::Error() : runtime::checkWritable(path))
      return runtime::Error(option + path + ": " + problem.message());
  return {};
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
    if (libraryOf(options) && (options.output.empty() || &input == &options.inputs.front())) {
      const std::string library = libraryPath(options, input), header = headerPath(library);
      if (options.output.empty())
        files.writes(library + " of -c " + input, library);
      files.writes(header + ", the header of " + library, header);
    }
    for (const Emission &emission : options.emissions)
      if (const auto *code = std::get_if<CodeEmission>(&emission);
          code && options.output.empty() && !code->isPrinted && !code->form->isNumbered)
        files.writes(codePath(input, *code) + " of " + spelling(*code->form) + " " + input, codePath(input, *code));
    if (const CompilerFlags &flags = options.flags; flags.saveRemarks)
      files.writes(optimizationRecordFile(flags, input) + " of -fsave-optimization-record and " + input,
                   optimizationRecordFile(flags, input));
    if (options.timeTrace)
      files.writes(timeTracePath(options, input) + " of -ftime-trace and " + input, timeTracePath(options, input));
    if (!options.saveTemps.empty())
      for (const std::string &stage : stageSuffixes(*targetKindOf(options.compile.targetName)))
        files.writes(stagePath(options.saveTemps, input, stage) + " of -save-temps and " + input,
                     stagePath(options.saveTemps, input, stage));
    if (!options.dumpFolder.empty())
      files.writes(dumpPath(options.dumpFolder, input) + " of -fdump-dir= and " + input,
                   dumpPath(options.dumpFolder, input));
  }
  if (!options.flags.tuning.empty())
    files.writes("--tuning=" + options.flags.tuning, options.flags.tuning);
  for (const auto &[name, path] : options.outputFiles)
    files.writes("--output " + name + "=" + path, path);
  for (const auto &[option, path] : {std::pair("--profile=", &options.profile), std::pair("--json=", &options.json),
                                     std::pair("--plot=", &options.plot)})
    if (!path->empty() && *path != "-")
      files.writes(option + *path, *path);
  if (runtime::Error wrong = files.check())
    return wrong;
  return options.isShownOnly ? runtime::Error() : checkLateFiles(options);
}

void writeResult(const std::string &path, llvm::StringRef bytes) {
  if (path.empty() || path == "-")
    llvm::outs() << bytes;
  else if (runtime::Error error = runtime::writeFileAtomically(path, {bytes.data(), bytes.size()}))
    throw Error(error.message());
}

std::string indentedJson(llvm::StringRef compact) {
  constexpr size_t lineBytes = 100;
  const std::vector<size_t> ends = closings(compact);
  std::string out;
  size_t depth = 0, flatEnd = 0; // within a short list until byte `flatEnd`
  bool string = false;
  auto newLine = [&] { out += '\n' + std::string(2 * depth, ' '); };
  for (size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    const bool flat = i < flatEnd;
    if (!string && !flat && (c == ']' || c == '}')) {
      --depth;
      newLine();
    }
    out += c;
    if (c == '"')
      string = !string;
    else if (string && c == '\\')
      out += compact[++i];
    if (string)
      continue;
    if (!flat && ends[i] && ends[i] - i < lineBytes) {
      flatEnd = ends[i] + 1;
    } else if (!flat && ends[i]) {
      ++depth;
      newLine();
    } else if (c == ',') {
      flat ? out += ' ' : (newLine(), out);
    } else if (c == ':') {
      out += ' ';
    }
  }
  return out + '\n';
}

int finishStdout(int status, const Options &options) {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (out.has_error()) {
    diagnosticPrinter(options).print(Severity::error, "cannot write to stdout: " + out.error().message());
    status = std::max<int>(status, exitDiagnosed);
  }
  // LLVM would end the process over an error that nobody has seen to.
  out.clear_error();
  static_cast<llvm::raw_fd_ostream &>(llvm::errs()).clear_error();
  return status;
}

} // namespace tcc::driver
