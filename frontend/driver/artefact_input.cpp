// Says what is inside of an input that is an artefact already, or runs it.
#include "frontend/capture.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/execution.h"
#include "frontend/driver/libraries.h"
#include "frontend/driver/outputs.h"
#include "runtime/elf_section.h"
#include "runtime/files.h"
#include "runtime/memory_report.h"
#include "runtime/profiler.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <array>
#include <filesystem>
#include <fstream>

namespace tcc::driver {
namespace {

constexpr llvm::StringLiteral hintKey = "value."; // metadata: how random elements of an argument are drawn

void printTensors(llvm::raw_ostream &os, llvm::StringRef what, const std::vector<runtime::TensorSpec> &list) {
  os << "  " << what << ": " << list.size();
  if (!list.empty())
    os << ", " << bytesText(runtime::totalBytes(list));
  os << '\n';
  constexpr size_t shown = 12;
  for (size_t i = 0; i < std::min(shown, list.size()); ++i)
    os << "    " << list[i].name << ": " << runtime::name(list[i].dtype) << Shape(list[i].shape).text() << '\n';
  if (list.size() > shown)
    os << "    and " << list.size() - shown << " more\n";
}

/// One part of the artefact, in a few lines.
void describeTarget(llvm::raw_ostream &os, const runtime::TargetCode &part) {
  int64_t products = 0, code = 0;
  for (const runtime::Instruction &instruction : part.plan.instructions)
    products += runtime::wordsOf(instruction).part == runtime::StepPart::products;
  for (const std::string &bytes : part.code)
    code += static_cast<int64_t>(bytes.size());
  os << part.target << ": " << part.plan.instructions.size() << " instructions, " << products
     << " of them matrix products, " << part.plan.kernels.size() << " kernels in " << bytesText(code) << " of code, "
     << bytesText(part.plan.plannedBytes()) << " planned (" << bytesText(part.plan.arenaBytes) << " arena)"
     << (part.needs.empty() ? "" : ", needs ") << part.needs << '\n';
  printTensors(os, "inputs", part.plan.inputs);
  printTensors(os, "states", part.plan.states);
  printTensors(os, "results", part.plan.outputs);
}

/// What cannot be asked of something that is compiled is said, not ignored.
void refuse(const Options &options, const std::string &path) {
  const char *asked = nullptr;
  for (const Emission &emission : options.emissions)
    if (!std::holds_alternative<PlanEmission>(emission))
      asked = "only -emit=json";
  if (options.reference)
    asked = "--run, not the reference interpreter";
  if (options.ablationRounds)
    asked = "--run or --bench; --ablate compiles in many forms, from a .graph file";
  if (!options.compile.pipeline.shapes.empty())
    asked = "no --shape=, its sizes are fixed";
  if (options.emissions.empty() && !options.output.empty() && !libraryOf(options))
    asked = "-o for a library (.so, .a, .o), or with -emit=json";
  if (options.compile.pipeline.verifyEach || !options.compile.pipeline.dump.empty())
    asked = "no passes, they have run";
  if (asked)
    throw Error(path + " is compiled already; it takes " + asked);
  for (llvm::StringRef flag : options.givenFlags)
    if (!flag.starts_with("--threads") && flag != "--allow-custom-code" && flag != "-fmemory-report")
      throw Error(path + " is compiled already; " + flag.str() + " says how to compile, and changes nothing of it");
}

void processChecked(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps) {
  refuse(options, path);
  auto artefact = runtime::readArtefact(path);
  if (!artefact)
    throw Error(artefact.error().message());
  if (options.action == Action::syntaxOnly)
    return;
  if (options.flags.memoryReport)
    llvm::errs() << runtime::memoryReport(artefact->targets.front().plan).text();
  if (!options.emissions.empty())
    return writeResult(options.output, indentedJson(runtime::planToJson(artefact->targets.front().plan)));
  if (libraryOf(options)) {
    steps.push_back(std::move(*artefact));
    return;
  }
  if (!options.runs && !options.benchRuns) {
    llvm::outs() << path << ": artefact for " << artefact->targets.size()
                 << (artefact->targets.size() == 1 ? " target" : " targets");
    for (const auto &[key, value] : artefact->metadata)
      if (!llvm::StringRef(key).starts_with(hintKey))
        llvm::outs() << ", " << key << ' ' << value;
    llvm::outs() << '\n';
    for (const runtime::TargetCode &part : artefact->targets)
      describeTarget(llvm::outs(), part);
    return;
  }

  RunValues values;
  for (const auto &[key, value] : artefact->metadata)
    if (llvm::StringRef name = key; name.consume_front(hintKey))
      values.hints[name.str()] = parseHint(value);
  std::optional<runtime::Trace> timeLine;
  if (!options.profile.empty())
    timeLine.emplace(path);
  std::optional<runtime::TraceScope> loading(std::in_place, timeLine ? &*timeLine : nullptr, "load", "compile");
  const std::shared_ptr<runtime::Device> device = deviceFor(artefact->targets.front().target, options.flags.tuning);
  auto executable = runtime::Executable::load(
      std::move(*artefact),
      {.threads = options.compile.threads, .device = device, .captures = options.flags.capturesSteps});
  if (!executable)
    throw Error(path + ": " + executable.error().message());
  loading.reset();
  std::map<std::string, std::vector<int64_t>> none;
  values.given = readInputs(options, argumentsOf((*executable)->plan()), none);
  for (const auto &[result, file] : options.outputFiles)
    checkName("--output ", result, writableNames((*executable)->plan()), "result or state");
  runtime::Profiler profiler;
  execute(**executable, options, values, profiler, timeLine ? &*timeLine : nullptr);
  if (timeLine)
    if (runtime::Error problem = timeLine->write(options.profile))
      throw Error(problem.message());
}

} // namespace

bool isArtefact(const std::string &path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) // a pipe gives its bytes only once
    return false;
  std::array<char, 6> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  const std::string_view bytes(head.data(), head.size());
  return bytes == "tccart" || bytes == "!<arch" || runtime::isElf(bytes);
}

int processArtefact(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps) {
  try {
    processChecked(options, path, steps);
    return exitSuccess;
  } catch (const Error &problem) {
    diagnosticPrinter(options).print(Severity::error, problem.what());
  } catch (const std::bad_alloc &) {
    diagnosticPrinter(options).print(Severity::error, "no memory for the tensors of '" + path + "'");
  }
  return exitDiagnosed;
}

void storeHints(runtime::Artefact &artefact, const std::map<std::string, ValueHint> &hints) {
  for (const auto &[name, hint] : hints)
    artefact.metadata[hintKey.str() + name] = hintText(hint);
}

} // namespace tcc::driver
