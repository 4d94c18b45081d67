// The sections of a report as JSON text, each from the object that the text outputs print.
#include "frontend/report/report.h"
#include "codegen/targets.h"
#include "frontend/diagnostics.h"
#include "frontend/report/picture_text.h"
#include "ir/names.h"
#include "runtime/memory_report.h"
#include "runtime/profile_report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <atomic>
#include <thread>

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t mostTextBytes = int64_t{24} << 20; // of the IR after all passes together
constexpr size_t mostSourceBytes = 1 << 20;          // of a file that places point into
constexpr size_t mostSources = 64;
constexpr size_t kernelsOfPart = 4; // whose assembly is made together; fixed, so that pages of two machines compare

namespace json = llvm::json;

json::Value textValue(StringRef text) { // fixUTF8 is slow, and the IR's texts are long
  return json::isUTF8(text) ? json::Value(text.str()) : json::Value(json::fixUTF8(text));
}

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false).printNameLocAsPrefix());
  return text;
}

std::map<std::string, int64_t> countedOps(ModuleOp module) {
  std::map<std::string, int64_t> counts;
  functionOf(module).walk([&](Operation *op) {
    if (!isa<func::FuncOp>(op))
      ++counts[op->getName().stripDialect().str()];
  });
  return counts;
}

json::Object countsJson(const std::map<std::string, int64_t> &counts) {
  json::Object object;
  for (const auto &[name, count] : counts)
    object[name] = count;
  return object;
}

const PassInfo *passNamed(StringRef name) {
  for (const PassInfo &info : pipelineTable())
    if (name == info.name)
      return &info;
  return nullptr;
}

json::Array remarksJson(const Remarks &remarks) {
  constexpr const char *kinds[] = {"passed", "missed", "analysis"};
  json::Array list;
  for (const Remark &remark : remarks) {
    const FileLineColLoc place = sourceOf(remark.loc);
    list.push_back(json::Object{{"kind", kinds[static_cast<size_t>(remark.kind)]},
                                {"pass", remark.pass},
                                {"file", place ? textValue(place.getFilename().getValue()) : json::Value("")},
                                {"line", place ? place.getLine() : 0},
                                {"column", place ? place.getColumn() : 0},
                                {"text", textValue(remark.text)},
                                {"bytes", remark.bytes},
                                {"count", remark.count}});
  }
  return list;
}

json::Array kernelsJson(ArrayRef<KernelSource> kernels) {
  json::Array list;
  for (const KernelSource &kernel : kernels) {
    json::Object object{{"symbol", symbolOf(kernel)}};
    if (const auto *form = std::get_if<FormKernel>(&kernel)) {
      json::Array ops;
      for (const KernelNames::Op &op : form->names.ops)
        ops.push_back(json::Array{textValue(op.name), textValue(op.source), textValue(op.value)});
      object["title"] = textValue(form->title());
      object["ops"] = std::move(ops);
      object["count"] = form->kernels;
      object["space"] = json::Array{form->form.space.outer, form->form.space.rows, form->form.space.columns};
      object["stages"] = static_cast<int64_t>(form->form.stages);
    } else {
      object["title"] = symbolOf(kernel);
    }
    list.push_back(std::move(object));
  }
  return list;
}

/// `machine`: whose limits are stated rather than measured.
json::Object limitsJson(const runtime::MachineLimits &limits, const std::string &machine = {}) {
  return json::Object{{"machine", machine},
                      {"threads", limits.threads},
                      {"product_flops", limits.productFlops},
                      {"bf16_product_flops", limits.bf16ProductFlops},
                      {"bytes_per_second", limits.bytesPerSecond}};
}

/// What the kernels' machine code takes, by symbol; or why that is not known.
json::Object usesJson(const runtime::Expected<std::vector<KernelUse>> &uses) {
  json::Object kernels;
  if (uses)
    for (const KernelUse &use : *uses)
      kernels[use.symbol] = json::Object{
          {"registers", use.registers}, {"stack_bytes", use.stackBytes}, {"shared_bytes", use.sharedBytes}};
  return json::Object{{"unknown", uses ? json::Value(nullptr) : textValue(uses.error().message())},
                      {"kernels", std::move(kernels)}};
}

json::Object compileJson(const CompileSession &session, const runtime::Plan &plan) {
  const CompileReport &report = session.report();
  json::Array steps;
  for (const auto &[name, ms] : report.codegenSteps)
    steps.push_back(json::Array{name, ms});
  return json::Object{{"target", session.target().title()},
                      {"model", session.target().model().name},
                      {"level", session.options().pipeline.level},
                      {"threads", session.options().threads},
                      {"captured_ops", report.pipeline.capturedOps},
                      {"kernels", report.pipeline.kernels},
                      {"compiled_kernels", report.compiledKernels},
                      {"matmuls", report.pipeline.matmuls},
                      {"instructions", static_cast<int64_t>(plan.instructions.size())},
                      {"planned_bytes", report.plannedBytes},
                      {"arena_bytes", report.pipeline.arenaBytes},
                      {"recomputed", report.pipeline.recomputed.ops
                                         ? json::Value(recomputationText(report.pipeline.recomputed))
                                         : json::Value(nullptr)},
                      {"passes_ms", report.pipelineMs},
                      {"code_ms", report.codegenMs},
                      {"total_ms", report.totalMs},
                      {"code_steps", std::move(steps)},
                      {"cache", textValue(report.cache)}};
}

/// The kernels as `shown`. Their machine code takes longer than the rest of the page, so that parts of `size` kernels
/// are made on several threads; 0: all in one part.
runtime::Expected<std::vector<std::string>> emitInParts(const CompileSession &session, StringRef shown, size_t size) {
  const ArrayRef<KernelSource> kernels = session.report().kernels;
  if (size == 0 || kernels.size() <= size)
    return session.target().emitAs(shown, kernels);
  const size_t count = llvm::divideCeil(kernels.size(), size);
  std::vector<runtime::Expected<std::vector<std::string>>> parts(count, std::vector<std::string>());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++)
      parts[i] = session.target().emitAs(shown, kernels.slice(i * size, std::min(size, kernels.size() - i * size)));
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(count, std::thread::hardware_concurrency()); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  std::string text;
  for (const auto &part : parts) {
    if (!part)
      return part.error();
    for (const std::string &module : *part)
      text += module;
  }
  return std::vector<std::string>{std::move(text)};
}

} // namespace

Report::Report(std::string title, std::vector<std::string> command)
    : title(std::move(title)), command(std::move(command)) {}

void Report::watch(CompileOptions &options) {
  options.watched = true;
  options.remarks = true;
  options.pipeline.reached = [this](Phase phase, ModuleOp module) { reached(phase, module); };
  options.pipeline.passed = [this](const PassReport &pass, ModuleOp module) { passed(pass, module); };
}

void Report::reached(Phase phase, ModuleOp module) {
  if (phase == Phase::captured) { // a compilation begins
    passes.clear();
    texts.clear();
    textBytes = 0;
    sections.erase("pictures");
    passed({"captured", 0, true}, module);
  }
  if (phase != Phase::captured && phase != Phase::fused)
    return;
  std::string &pictures = sections["pictures"];
  pictures = (pictures.empty() ? "{\"" : StringRef(pictures).drop_back().str() + ",\"") + phaseName(phase).str() +
             "\":" + pictureAsJson(pictureOf(functionOf(module), target)) + "}";
}

void Report::passed(const PassReport &pass, ModuleOp module) {
  if (pass.changed && !textsLeftOut) {
    texts.push_back(printed(module));
    textBytes += static_cast<int64_t>(texts.back().size());
    if (textBytes > mostTextBytes) {
      textsLeftOut = true;
      texts.resize(1);
    }
  }
  passes.push_back({pass.name, pass.changed || passes.empty() ? countedOps(module) : passes.back().ops,
                    textsLeftOut ? 0 : texts.size() - 1});
}

void Report::addSource(const std::string &file, std::string_view text) {
  if (text.size() <= mostSourceBytes)
    sources[file] = text;
}

/// Reads the file of a place "FILE:LINE", or FILE, where it is not there yet.
void Report::addFile(std::string_view file) {
  const std::string path(file);
  if (path.empty() || sources.count(path) || sources.size() >= mostSources)
    return;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  sources[path] = buffer && (*buffer)->getBufferSize() <= mostSourceBytes ? (*buffer)->getBuffer().str() : "";
}

void Report::listenTo(DiagnosticPrinter &printer) {
  printer.tellToo([this](Severity severity, const TextPlace &place, StringRef message) {
    constexpr const char *severities[] = {"error", "warning", "remark", "note"};
    if (severity != Severity::remark) // those are in the report as data
      addDiagnostic(severities[static_cast<size_t>(severity)], place.file, place.line, place.column, message);
  });
}

void Report::addDiagnostic(std::string_view severity, const std::string &file, unsigned line, unsigned column,
                           std::string_view message) {
  addFile(file);
  diagnostics.push_back(jsonText(json::Object{{"severity", textValue(severity)},
                                              {"file", textValue(file)},
                                              {"line", line},
                                              {"column", column},
                                              {"message", textValue(message)}}));
}

runtime::Error Report::addCompilation(const CompileSession &session, const runtime::Plan &plan,
                                      ArrayRef<std::string> code) {
  const CompileReport &report = session.report();
  json::Array list;
  for (const PassReport &pass : report.pipeline.passes) {
    const PassInfo *info = passNamed(pass.name);
    list.push_back(json::Object{{"name", pass.name},
                                {"phase", info ? phaseName(info->reaches).str() : ""},
                                {"reason", info ? info->reason : ""},
                                {"ms", pass.milliseconds},
                                {"changed", pass.changed}});
  }
  sections["passes"] = jsonText(std::move(list));
  sections["compile"] = jsonText(compileJson(session, plan));
  sections["remarks"] = jsonText(remarksJson(report.remarks));
  sections["kernels"] = jsonText(kernelsJson(report.kernels));
  sections["plan"] = runtime::planToJson(plan);
  sections["memory"] = runtime::memoryReport(plan).json();
  sections["uses"] = jsonText(usesJson(session.target().usesOf(code)));
  // What a GPU can do is measured where the step runs on one.
  StatedLimits known = session.target().statedLimits();
  if (session.target().model().name.starts_with("cpu"))
    known.limits = runtime::machineLimits(plan.threads);
  sections["limits"] = jsonText(limitsJson(known.limits, known.machine));
  sections["costs"] = runtime::planTable(plan, known.limits).json();
  for (const runtime::Instruction &instruction : plan.instructions)
    for (const runtime::SourceLocation &source : instruction.sources)
      addFile(source.file);
  return addCode(session);
}

runtime::Error Report::addCode(const CompileSession &session) {
  const StringRef target = session.options().targetName;
  const TargetKind *kind = targetKindOf(target);
  if (!kind || kind->emissions().empty()) // the caller's own target shows nothing
    return {};
  const StringRef shown = kind->hasDevices() ? kind->emissions().front().name : kind->assembly();
  const KernelEmission *form = llvm::find_if(kind->emissions(), [&](const auto &each) { return each.name == shown; });
  auto modules = emitInParts(session, shown, kind->hasDevices() ? 0 : kernelsOfPart);
  if (!modules)
    return modules.error();
  const std::string text = kind->shown(*form, EmittedCode{target.split(':').second.str(), std::move(*modules)});
  sections["code"] = jsonText(json::Object{{"form", shown}, {"text", textValue(text)}});
  return {};
}

void Report::addProfile(const runtime::Profiler &profiler, const runtime::MachineLimits &limits) {
  sections["profile"] = runtime::profileTable(profiler, limits).json();
  sections["limits"] = jsonText(limitsJson(limits));
}

void Report::addTraining(std::string_view lines) {
  std::string list;
  for (StringRef line : llvm::split(StringRef(lines), '\n'))
    if (llvm::Expected<json::Value> value = json::parse(line)) // one that was cut off says nothing
      list += (list.empty() ? "" : ",") + jsonText(std::move(*value));
    else
      llvm::consumeError(value.takeError());
  sections["training"] = "[" + list + "]";
}

std::string Report::json() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream);
  out.object([&] {
    out.attribute("format", "tcc report");
    out.attribute("version", 1);
    out.attribute("title", textValue(title));
    out.attributeArray("command", [&] {
      for (const std::string &word : command)
        out.value(textValue(word));
    });
    out.attributeObject("sources", [&] {
      for (const auto &[file, content] : sources)
        if (!content.empty())
          out.attribute(json::fixUTF8(file), textValue(content));
    });
    out.attributeArray("diagnostics", [&] {
      for (const std::string &each : diagnostics)
        out.rawValue(each);
    });
    out.attributeArray("stages", [&] {
      for (const Pass &pass : passes)
        out.value(json::Object{
            {"name", pass.name}, {"ops", countsJson(pass.ops)}, {"text", static_cast<int64_t>(pass.text)}});
    });
    out.attribute("texts_left_out", textsLeftOut);
    out.attributeArray("texts", [&] {
      for (const std::string &each : texts)
        out.value(textValue(each));
    });
    for (const auto &[name, section] : sections) {
      out.attributeBegin(name);
      out.rawValue(section);
      out.attributeEnd();
    }
  });
  return text;
}

} // namespace tcc
