// Report: all that is known about one compilation and its runs, as one JSON document and as one page for people
// (--report=DIR). Each section shows what the text outputs print, and gets it from the same functions; nothing is
// computed here.
#pragma once
#include "codegen/compile_session.h"
#include "runtime/machine_limits.h"
#include "runtime/profiler.h"
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

class DiagnosticPrinter;

class Report {
public:
  /// `title`: the input's or the function's name. `command`: the words of the command line; none where there was none.
  explicit Report(std::string title, std::vector<std::string> command = {});

  /// Lets the compilation with these options tell the report each pass and phase. The report must outlive it, and must
  /// not move.
  void watch(CompileOptions &options);
  /// Sets the model of the target if that is no CPU; pictures show what ops cost there.
  void compileFor(const TargetModel &model) { target = model; }
  /// The text of a file that places point into. Others are read from disk when the report is written.
  void addSource(const std::string &file, std::string_view text);
  /// Gets the errors, warnings and notes that the printer prints, too.
  void listenTo(DiagnosticPrinter &printer);
  void addDiagnostic(std::string_view severity, const std::string &file, unsigned line, unsigned column,
                     std::string_view message);
  /// What was compiled by the session: its plan, and its kernels as the target's assembly or source text. `code`: their
  /// machine code, where there is some.
  runtime::Error addCompilation(const CompileSession &session, const runtime::Plan &plan,
                                llvm::ArrayRef<std::string> code = {});
  /// Times of steps beside the limits of what they ran on.
  void addProfile(const runtime::Profiler &profiler, const runtime::MachineLimits &limits);
  /// BreakReport::json().
  void addBreaks(std::string json) { sections["breaks"] = std::move(json); }
  /// JSON lines of a training run, as its log has them.
  void addTraining(std::string_view lines);

  /// {"format": "tcc report", "version": 1, "title", "command", "sources", "diagnostics", "compile", "passes", "ir",
  /// "pictures", "remarks", "plan", "memory", "costs", "kernels", "uses", "code", "limits", "profile", "breaks",
  /// "training"}. A section that is not known has no member. readReports() adds "from", the path that it was given.
  std::string json() const;

private:
  void passed(const PassReport &pass, mlir::ModuleOp module);
  void reached(Phase phase, mlir::ModuleOp module);
  void addFile(std::string_view file);
  runtime::Error addCode(const CompileSession &session);

  struct Pass {
    std::string name;
    std::map<std::string, int64_t> ops; ///< how many ops of each kind it left
    size_t text = 0;                    ///< the number of the IR's text after it
  };

  std::string title;
  std::vector<std::string> command;
  std::map<std::string, std::string> sources;
  std::map<std::string, std::string> sections; ///< JSON text by name
  std::vector<std::string> diagnostics;        ///< objects of JSON
  std::vector<Pass> passes;                    ///< the first is what was captured
  std::vector<std::string> texts;              ///< of the IR
  int64_t textBytes = 0;
  bool textsLeftOut = false;
  TargetModel target;
};

/// The page for one report, or for several that are compared.
std::string reportPage(llvm::ArrayRef<std::string> reports);

/// The figures of several reports side by side, with one figure on each line.
std::string comparisonText(llvm::ArrayRef<std::string> reports);

/// Writes the page to FOLDER/index.html; the folder is made.
runtime::Error writeReportPage(const std::string &folder, llvm::ArrayRef<std::string> reports);

/// The reports in FOLDER/index.html, or in a file, as JSON. Errors: no such file, no page of tcc, another version.
runtime::Expected<std::vector<std::string>> readReports(const std::string &path);

} // namespace tcc
