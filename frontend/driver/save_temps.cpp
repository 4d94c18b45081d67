// One compilation, which is watched, makes every stage.
#include "frontend/driver/save_temps.h"
#include "codegen/compile_session.h"
#include "codegen/targets.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/outputs.h"
#include "frontend/graph_file.h"
#include "runtime/plan.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;

namespace tcc::driver {
namespace {

constexpr Phase phases[] = {Phase::captured, Phase::joint, Phase::shaped, Phase::fused, Phase::planned};
constexpr const char *planSuffix = ".plan.json";

std::string suffixOf(Phase phase) {
  return "." + phaseName(phase).str() + ".graph";
}

} // namespace

std::vector<std::string> stageSuffixes(const TargetKind &kind) {
  std::vector<std::string> suffixes;
  for (Phase phase : phases)
    suffixes.push_back(suffixOf(phase));
  suffixes.emplace_back(planSuffix);
  for (const KernelEmission &form : kind.emissions())
    if (form.isText)
      suffixes.push_back(form.suffix.str());
  return suffixes;
}

void saveTemps(const std::string &folder, const std::string &input, ModuleOp module, const CompileOptions &options) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder, true, llvm::sys::fs::all_all))
    throw Error("cannot make folder '" + folder + "': " + error.message());
  auto write = [&](const std::string &suffix, const std::string &text) {
    writeResult(stagePath(folder, input, suffix), text);
  };
  CompileOptions watched = options;
  watched.pipeline.dump.clear(); // dumps are of the compilation itself
  watched.pipeline.reached = [&](Phase phase, ModuleOp reached) { write(suffixOf(phase), graphText(reached)); };
  CompileSession session = orThrow(CompileSession::open(std::move(watched)));
  const auto [plan, kernels] = orThrow(session.planAndKernels(OwningOpRef<ModuleOp>(module.clone())));
  write(planSuffix, indentedJson(runtime::planToJson(plan)));
  const TargetKind &kind = *targetKindOf(options.targetName);
  for (const KernelEmission &form : kind.emissions())
    if (form.isText) {
      EmittedCode code{options.targetName.substr(options.targetName.find(':') + 1),
                       orThrow(session.target().emitAs(form.name, kernels))};
      write(form.suffix.str(), kind.shown(form, code));
    }
}

} // namespace tcc::driver
