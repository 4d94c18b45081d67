// Prints remarks, and writes them as YAML.
#include "frontend/remarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Remarks/Remark.h"
#include "llvm/Remarks/YAMLRemarkSerializer.h"
#include "llvm/Support/FormatVariadic.h"
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
