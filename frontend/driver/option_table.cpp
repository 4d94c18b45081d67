// The table, made by TableGen, and what help and completion read off it.
#include "frontend/driver/option_table.h"
#include "codegen/targets.h"
#include "frontend/compiler_flags.h"
#include "frontend/graph_warnings.h"
#include "frontend/report/picture_text.h"
#include "passes/pipeline.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Option/Option.h"

using namespace llvm::opt;
using llvm::StringRef;

namespace tcc::driver {
namespace {

#define OPTTABLE_STR_TABLE_CODE
#include "frontend/driver/Options.inc"
#undef OPTTABLE_STR_TABLE_CODE
#define OPTTABLE_PREFIXES_TABLE_CODE
#include "frontend/driver/Options.inc"
#undef OPTTABLE_PREFIXES_TABLE_CODE

constexpr OptTable::Info infos[] = {
#define OPTION(...) LLVM_CONSTRUCT_OPT_INFO(__VA_ARGS__),
#include "frontend/driver/Options.inc"
#undef OPTION
};

bool isGroup(const Option &option) {
  return option.getKind() == Option::GroupClass;
}

/// The options of a group that have help.
HelpSection sectionOf(const OptionTable &table, unsigned group) {
  HelpSection section{table.getOptionName(group).str(), table.getOptionHelpText(group), {}};
  for (unsigned id = 1; id <= table.getNumOptions(); ++id) {
    const Option option = table.getOption(id);
    const char *help = table.getOptionHelpText(id);
    if (!help || isGroup(option) || !option.getGroup().isValid() || option.getGroup().getID() != group)
      continue;
    const char *value = table.getOptionMetaVar(id);
    const bool isApart = option.getKind() == Option::SeparateClass || option.getKind() == Option::JoinedOrSeparateClass;
    section.rows.push_back(
        {option.getPrefixedName().str() + (value && isApart ? " " : "") + (value ? value : ""), help});
  }
  llvm::sort(section.rows, [](const HelpRow &a, const HelpRow &b) { // -x before -x=VALUE
    return StringRef(a.spelling).ltrim('-').compare_insensitive(StringRef(b.spelling).ltrim('-')) < 0;
  });
  return section;
}

HelpSection flagSection() {
  HelpSection section{"flags", "How code is made", {}};
  for (const CompilerFlag &flag : compilerFlags())
    section.rows.push_back({std::string(flag.spelling) + flag.value, flag.help});
  return section;
}

HelpSection targetSection() {
  HelpSection section{"targets", "Targets", {}};
  for (const TargetKind *kind : targetKinds()) {
    auto shown = llvm::map_range(kind->emissions(), [](const KernelEmission &form) { return form.name.str(); });
    section.rows.push_back(
        {"--target=" + kind->name().str(), kind->help().str() + "; -emit=" + llvm::join(shown, ", ")});
  }
  return section;
}

HelpSection warningSection() {
  HelpSection section{"warnings", "Warnings, all on", {}};
  for (const WarningInfo &warning : warningTable())
    section.rows.push_back({std::string("-W") + warning.name, warning.what});
  return section;
}

} // namespace

OptionTable::OptionTable() : GenericOptTable(OptionStrTable, OptionPrefixesTable, infos) {}

std::vector<HelpSection> helpSections() {
  const OptionTable table;
  return {sectionOf(table, OPT_what),      sectionOf(table, OPT_how),  flagSection(),    targetSection(),
          sectionOf(table, OPT_run_group), sectionOf(table, OPT_look), warningSection(), sectionOf(table, OPT_about)};
}

std::vector<std::pair<StringRef, Emission>> emissionTable() {
  std::vector<std::pair<StringRef, Emission>> table;
  for (Phase phase : {Phase::captured, Phase::joint, Phase::shaped, Phase::fused, Phase::planned})
    table.emplace_back(phaseName(phase), phase);
  table.emplace_back("json", PlanEmission());
  table.emplace_back("memory", MemoryEmission());
  table.emplace_back("memory.json", MemoryEmission{.isJson = true});
  constexpr std::tuple<const char *, Phase, std::string (*)(const GraphPicture &)> pictures[] = {
      {"dot", Phase::fused, pictureAsDot},
      {"svg", Phase::fused, pictureAsSvg},
      {"model-explorer", Phase::fused, pictureAsModelExplorer},
      {"captured.dot", Phase::captured, pictureAsDot},
      {"captured.svg", Phase::captured, pictureAsSvg},
      {"captured.model-explorer", Phase::captured, pictureAsModelExplorer}};
  for (const auto &[name, phase, form] : pictures)
    table.emplace_back(name, PictureEmission{phase, form});
  for (const TargetKind *kind : targetKinds())
    for (const KernelEmission &form : kind->emissions())
      table.emplace_back(form.name, CodeEmission{kind, &form});
  return table;
}

std::vector<std::string> emissionNames() {
  std::vector<std::string> names;
  for (const auto &[name, emission] : emissionTable())
    names.push_back(name.str());
  return names;
}

std::vector<std::string> completions(StringRef prefix) {
  std::vector<std::string> all;
  const auto add = [&](StringRef option, const std::vector<std::string> &values) {
    for (const std::string &value : values)
      all.push_back(option.str() + value);
  };
  const OptionTable table;
  for (unsigned id = 1; id <= table.getNumOptions(); ++id)
    if (const Option option = table.getOption(id); !isGroup(option) && id != OPT_INPUT && id != OPT_UNKNOWN &&
                                                   option.getUnaliasedOption().getID() != OPT_g) // always refused
      all.push_back(option.getPrefixedName().str());
  for (const CompilerFlag &flag : compilerFlags())
    all.emplace_back(flag.spelling);

  std::vector<std::string> passes, warnings, sections, kinds;
  for (const PassInfo &pass : pipelineTable())
    passes.emplace_back(pass.name);
  for (const WarningInfo &warning : warningTable())
    warnings.emplace_back(warning.name);
  for (const HelpSection &section : helpSections())
    sections.push_back(section.name);
  for (const TargetKind *kind : targetKinds()) {
    kinds.push_back(kind->name().str());
    add("-march=", kind->architectures());
  }
  add("-f", passes);
  add("-fno-", passes);
  add("-fdump-ir=", passes);
  add("-fdump-ir=", {"all", "changed"});
  add("-W", warnings);
  add("-Wno-", warnings);
  add("-Werror=", warnings);
  add("-O", {"0", "1", "2", "3", "s", "z", "g", "fast"});
  add("-emit=", emissionNames());
  add("--target=", kinds);
  add("--dtype=", {"f32", "bf16", "f16", "auto"});
  add("--help=", sections);
  add("-fdiagnostics-color=", {"always", "never", "auto"});
  llvm::erase_if(all, [&](const std::string &each) { return !StringRef(each).starts_with(prefix); });
  llvm::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

} // namespace tcc::driver
