// From the pipeline's table, and from the flags that switch something beside passes.
#include "frontend/switches.h"
#include "codegen/targets.h"
#include "frontend/compile_options.h"
#include "frontend/error.h"
#include "passes/switches.h"

namespace tcc {
namespace {

/// Passes that users know by another option than -f.
constexpr std::pair<llvm::StringLiteral, const char *> namedOptions[] = {{"autocast", "--dtype=f32"},
                                                                         {"rematerialize", "--remat=none"}};

std::string optionWithout(const PassInfo &pass) {
  for (const auto &[name, option] : namedOptions)
    if (name == pass.name)
      return option;
  return std::string("-fno-") + pass.name;
}

} // namespace

std::vector<std::string> switchesOff(const CompilerFlags &flags, const std::string &targetName) {
  CompileOptions options;
  applyFlags(flags, options);
  const auto target = makeTarget(targetName, options.code, /*threads=*/1);
  if (!target)
    throw Error(target.error().message());
  options.pipeline.target = (*target)->model();
  std::vector<std::string> off;
  const auto add = [&](const std::string &option) {
    if (!llvm::is_contained(off, option))
      off.push_back(option);
  };
  for (const PassInfo *pass : optionalPasses(options.pipeline))
    add(optionWithout(*pass));
  if (flags.fusesUpdates())
    add("-fno-fuse-optimizer");
  if (flags.chooseProducts || flags.tf32)
    add("--dtype=f32");
  if (flags.leastMemory)
    add("-O2");
  else if (flags.memoryLimit && flags.remat != Remat::none)
    add("--remat=none");
  if (flags.level >= 2)
    add("-O1");
  if (flags.fastMath)
    add("-fno-fast-math");
  if (flags.capturesSteps && targetKindOf(targetName)->hasDevices())
    add("-fno-cuda-graph");
  if (flags.level >= 1)
    add(everythingOff);
  return off;
}

CompilerFlags withOption(CompilerFlags flags, const std::string &option) {
  std::string problem;
  if (!takeCompilerFlag(option, nullptr, flags, problem) || !problem.empty())
    throw Error(problem.empty() ? "'" + option + "' is no option of the compiler" : problem, Error::Kind::internal);
  return flags;
}

} // namespace tcc
