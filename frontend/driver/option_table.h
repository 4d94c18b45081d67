// Every option and flag of tcc, as data from which the parser, --help, the man page and completion are derived.
#pragma once
#include "frontend/driver/options.h"
#include "llvm/Option/OptTable.h"
#include <string>
#include <vector>

namespace tcc::driver {

/// The options of Options.td.
enum OptionId {
  OPT_INVALID = 0,
#define OPTION(...) LLVM_MAKE_OPT_ID(__VA_ARGS__),
#include "frontend/driver/Options.inc"
#undef OPTION
};

class OptionTable : public llvm::opt::GenericOptTable {
public:
  OptionTable();
};

/// An option as help shows it: "-o FILE" and what it does.
struct HelpRow {
  std::string spelling, help;
};

/// A category of options: --help=`name`.
struct HelpSection {
  std::string name, title;
  std::vector<HelpRow> rows;
};

/// All options of Options.td, the compiler's flags, targets and warnings, in the order in which they are shown.
std::vector<HelpSection> helpSections();

/// The words with `prefix` that may be typed: options, and the values of options that have few of them.
std::vector<std::string> completions(llvm::StringRef prefix);

/// emissionTable() has all emissions with their names in -emit=, emissionNames() the names alone.
std::vector<std::pair<llvm::StringRef, Emission>> emissionTable();
std::vector<std::string> emissionNames();

} // namespace tcc::driver
