// --help, whole or one category of it, and the same as a page for man.
#include "frontend/diagnostics.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/option_table.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using llvm::StringRef;

namespace tcc::driver {
namespace {

struct Example {
  const char *command, *what;
};
constexpr Example examples[] = {
    {"tcc model.graph -O3", "compile and print a summary"},
    {"tcc model.graph --run", "run on random inputs and print the results"},
    {"tcc model.graph --bench -O0", "time one kernel an op; then without -O0"},
    {"tcc model.graph -emit=fused", "print the fused kernels"},
    {"tcc step.graph -o step.so", "write a library and step.h, for programs in C"},
    {"tcc model.graph --shape=x:16x256 -o F.tcc", "fix '?' dims and write the artefact"},
    {"tcc --print-pipeline -O1", "the passes and what each is for"},
};
constexpr const char *purpose = "compiles GPT training steps, written as graphs, to fused machine code";
constexpr const char *statuses = "0; 1 after a diagnosed error; 2 after a usage error; 70 after an internal error.";

void printSection(llvm::raw_ostream &os, const HelpSection &section) {
  constexpr size_t column = 38;
  os << '\n' << section.title << ":\n";
  for (const HelpRow &row : section.rows) {
    const std::string spelling = "  " + row.spelling;
    os << spelling;
    if (spelling.size() + 1 > column) // on a line of its own
      os << '\n';
    os.indent(spelling.size() + 1 > column ? column : column - spelling.size()) << row.help << '\n';
  }
}

/// A text as roff takes it: no minus is a hyphen, no line a request.
std::string roff(StringRef text) {
  std::string out;
  for (const char c : text)
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return (text.starts_with(".") || text.starts_with("'") ? "\\&" : "") + out;
}

} // namespace

void printHelp(llvm::raw_ostream &os, StringRef category) {
  const std::vector<HelpSection> sections = helpSections();
  std::vector<std::string> names;
  for (const HelpSection &section : sections) {
    names.push_back(section.name);
    if (section.name == category)
      return printSection(os, section);
  }
  if (!category.empty()) {
    const std::string candidate = nearest(category, names);
    throw usageError("unknown category '" + category.str() +
                     "' of --help=" + (candidate.empty() ? "" : "; did you mean '" + candidate + "'?") + " (one of " +
                     llvm::join(names, ", ") + ")");
  }
  os << "tcc " << purpose << ".\n\nExamples:\n";
  for (const Example &example : examples)
    os << "  " << llvm::left_justify(example.command, 42) << example.what << '\n';
  os << "\nUSAGE: tcc [options] file...\n";
  for (const HelpSection &section : sections)
    printSection(os, section);
  os << "\nExit status: " << statuses << '\n';
}

void printManPage(llvm::raw_ostream &os) {
  os << ".TH TCC 1 \"\" \"tcc " << versionText << "\" \"User Commands\"\n.SH NAME\ntcc \\- " << purpose
     << "\n.SH SYNOPSIS\n.B tcc\n[\\fIoptions\\fR] \\fIfile\\fR...\n.SH DESCRIPTION\n"
     << "A file is a graph as text, an artefact that \\fB\\-o\\fR has written, or \\fB\\-\\fR, the standard input. "
        "\\fB@\\fR\\fIfile\\fR stands for the words in it. Without a kind of output a graph is compiled, and a "
        "summary is printed.\n.SH EXAMPLES\n";
  for (const Example &example : examples)
    os << ".TP\n.B " << roff(example.command) << '\n' << roff(example.what) << '\n';
  os << ".SH OPTIONS\n";
  for (const HelpSection &section : helpSections()) {
    os << ".SS " << roff(section.title) << '\n';
    for (const HelpRow &row : section.rows)
      os << ".TP\n.B " << roff(row.spelling) << '\n' << roff(row.help) << '\n';
  }
  os << ".SH EXIT STATUS\n"
     << statuses
     << "\n.SH ENVIRONMENT\n"
        ".TP\n.B TCC_CPU\nA level of x86\\-64 (x86\\-64\\-v3): the CPU looks as if it had no more.\n"
        ".TP\n.B TCC_CACHE_DIR\nWhere compiled steps are kept; off for none.\n"
        ".TP\n.B NO_COLOR\nNo colour, unless \\-fdiagnostics\\-color=always asks for it.\n";
}

} // namespace tcc::driver
