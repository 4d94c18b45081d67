// Remarks: joined, printed, recorded.
#include "frontend/remarks.h"
#include "runtime/labels.h"
#include "runtime/machine_limits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Remarks/Remark.h"
#include "llvm/Remarks/YAMLRemarkSerializer.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <regex>

using namespace mlir;

namespace tcc {
namespace {

/// What goes with a kind: the flag, the verb of its bytes, LLVM's word.
struct KindInfo {
  const char *flag, *bytes; // no verb: the text has the figures
  std::string CompilerFlags::*pattern;
  llvm::remarks::Type type;
};
const KindInfo &infoOf(Remark::Kind kind) {
  static constexpr KindInfo infos[] = {
      {"-Rpass=", "saves", &CompilerFlags::remarksPassed, llvm::remarks::Type::Passed},
      {"-Rpass-missed=", "costs", &CompilerFlags::remarksMissed, llvm::remarks::Type::Missed},
      {"-Rpass-analysis=", "", &CompilerFlags::remarksAnalysis, llvm::remarks::Type::Analysis}};
  return infos[static_cast<size_t>(kind)];
}

std::string bytesPhrase(int64_t bytes) {
  if (bytes < 1000)
    return std::to_string(bytes) + " bytes";
  if (bytes < 1000000)
    return llvm::formatv("{0:f1} kB", static_cast<double>(bytes) * 1e-3).str();
  return llvm::formatv("{0:f1} MB", static_cast<double>(bytes) * 1e-6).str();
}

/// "fuse-kernels" as "FuseKernels": a record's names are single words.
std::string camelCase(StringRef name) {
  std::string word;
  for (StringRef part : llvm::split(name, '-'))
    if (!part.empty())
      word += llvm::toUpper(part[0]), word += part.drop_front();
  return word;
}

std::optional<std::regex> patternOf(const std::string &text) {
  if (text.empty())
    return std::nullopt;
  if (text == allRemarks || text == dearestRemarks)
    return std::regex("");
  return std::regex(text, std::regex::extended); // valid: the flag's parser has tried it
}

} // namespace

bool wantsRemarks(const CompilerFlags &flags) {
  return flags.saveRemarks || !flags.remarksPassed.empty() || !flags.remarksMissed.empty() ||
         !flags.remarksAnalysis.empty();
}

bool wantsCosts(const CompilerFlags &flags) {
  return flags.saveRemarks || !flags.remarksAnalysis.empty();
}

void addCostRemarks(const runtime::Plan &plan, MLIRContext &context, Remarks &remarks) {
  const runtime::MachineLimits limits = runtime::machineLimits(plan.threads);
  for (const runtime::Instruction &instruction : plan.instructions) {
    if (instruction.sources.empty() || (!instruction.flops && !instruction.bytes))
      continue;
    const runtime::SourceLocation &source = instruction.sources[0];
    const runtime::Bound bound = limits.boundOf(instruction);
    std::string text = llvm::formatv("{0}: {1:f2} MFLOP, {2:f2} MB, at least {3:f3} ms, bound by {4}",
                                     instruction.label, static_cast<double>(instruction.flops) * 1e-6,
                                     static_cast<double>(instruction.bytes) * 1e-6, bound.seconds * 1e3, bound.name());
    remarks.push_back({Remark::Kind::analysis, "cost",
                       FileLineColLoc::get(&context, source.file, static_cast<unsigned>(source.line),
                                           static_cast<unsigned>(source.column)),
                       std::move(text), instruction.bytes});
  }
}

Remarks summarized(const Remarks &remarks) {
  Remarks list;
  std::map<std::tuple<Remark::Kind, std::string, const void *, std::string>, size_t> known;
  for (const Remark &remark : remarks) {
    auto [place, inserted] = known.try_emplace(
        {remark.kind, remark.pass, remark.loc.getAsOpaquePointer(), runtime::labelPattern(remark.text)}, list.size());
    if (inserted) {
      list.push_back(remark);
      continue;
    }
    Remark &first = list[place->second];
    first.text = runtime::joinedLabel(first.text, remark.text);
    first.bytes += remark.bytes;
    first.count += remark.count;
  }
  llvm::stable_sort(list, [](const Remark &a, const Remark &b) { return a.bytes > b.bytes; });
  return list;
}

void printRemarks(const Remarks &remarks, const CompilerFlags &flags, DiagnosticPrinter &printer) {
  const std::optional<std::regex> patterns[] = {patternOf(flags.remarksPassed), patternOf(flags.remarksMissed),
                                                patternOf(flags.remarksAnalysis)};
  constexpr int mostShown = 10;
  struct {
    int shown = 0, rest = 0;
    int64_t bytes = 0; // of the rest
  } counts[std::size(patterns)];
  for (const Remark &remark : remarks) {
    const std::optional<std::regex> &pattern = patterns[static_cast<size_t>(remark.kind)];
    if (!pattern || !std::regex_search(remark.pass, *pattern))
      continue;
    const KindInfo &info = infoOf(remark.kind);
    auto &count = counts[static_cast<size_t>(remark.kind)];
    if (flags.*info.pattern == dearestRemarks && ++count.shown > mostShown) {
      ++count.rest;
      count.bytes += remark.bytes;
      continue;
    }
    std::string text = remark.text;
    if (remark.count > 1)
      text += " ×" + std::to_string(remark.count);
    if (remark.bytes && *info.bytes)
      text += std::string(remark.kind == Remark::Kind::passed ? ": " : "; ") + info.bytes + " " +
              bytesPhrase(remark.bytes) + " a step";
    printer.print(Severity::remark, placeOf(remark.loc), text + " [" + info.flag + remark.pass + "]");
  }
  for (auto [kind, count] : llvm::enumerate(counts))
    if (count.rest) {
      const KindInfo &info = infoOf(static_cast<Remark::Kind>(kind));
      std::string text = std::to_string(count.rest) + " more";
      if (count.bytes && *info.bytes)
        text += ", which together " + std::string(kind == 0 ? "save " : "cost ") + bytesPhrase(count.bytes) + " a step";
      printer.print(Severity::note, text + "; " + info.flag + "all shows each");
    }
}

std::string optimizationRecord(const Remarks &remarks, StringRef function) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::remarks::YAMLRemarkSerializer serializer(stream);
  for (const Remark &remark : remarks) {
    const KindInfo &info = infoOf(remark.kind);
    const TextPlace place = placeOf(remark.loc);
    const std::string name = camelCase(remark.pass), bytes = std::to_string(remark.bytes),
                      count = std::to_string(remark.count);
    llvm::remarks::Remark record;
    record.RemarkType = info.type;
    record.PassName = remark.pass;
    record.RemarkName = name;
    record.FunctionName = function;
    if (!place.file.empty())
      record.Loc = {place.file, place.line, place.column};
    record.Args.emplace_back("String", remark.text);
    if (remark.count > 1) {
      record.Args.emplace_back("String", " ×");
      record.Args.emplace_back("Count", count);
    }
    const std::string verb = std::string("; ") + info.bytes + " ";
    if (remark.bytes && *info.bytes) {
      record.Args.emplace_back("String", verb);
      record.Args.emplace_back("Bytes", bytes);
      record.Args.emplace_back("String", " bytes a step");
    }
    serializer.emit(record);
  }
  return text;
}

std::string optimizationRecordPath(const CompilerFlags &flags, StringRef name) {
  return flags.remarksFile.empty() ? (name + ".opt.yaml").str() : flags.remarksFile;
}

} // namespace tcc
