// The CPU's table.
#include "codegen/cpu/target.h"
#include "codegen/build_id.h"
#include "codegen/collective.h"
#include "codegen/cpu/lower_attention.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/custom.h"
#include "codegen/product.h"
#include "ir/dialect.h"
#include "runtime/cpu.h"
#include "runtime/machine_limits.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace tcc::cpu {

/// By tiles products are so fast that what they read and write counts.
CpuTarget::CpuTarget(EmitOptions given, int threads) : options(std::move(given)), threads(threads) {
  if (auto machine = createMachine(options.target)) // the error of an unknown CPU is given by emit
    vectors = vectorTarget(**machine, options.target);
  data.narrowActivations = vectors.hasTiles;
}

bool CpuTarget::supports(StringRef op) const {
  return op == CondOp::getOperationName() || op == RepeatOp::getOperationName() || op == MatmulOp::getOperationName() ||
         op == FlashAttentionOp::getOperationName() || op == FlashAttentionBackwardOp::getOperationName() ||
         op == CustomOp::getOperationName() || op == ShardOp::getOperationName() ||
         op == AllToAllOp::getOperationName() || op == AllGatherOp::getOperationName() ||
         op == AllReduceOp::getOperationName() || op == WaitOp::getOperationName();
}

bool CpuTarget::hasKernel(Operation *op) const {
  if (auto custom = dyn_cast<CustomOp>(op))
    return custom.hasCpuCode();
  return isa<CondOp>(op) || AttentionForm::of(op).has_value();
}

int64_t CpuTarget::scratchBytes(Operation *op) const {
  if (std::optional<AttentionForm> form = AttentionForm::of(op))
    return attentionScratch(op, threads, AttentionBlocks(*form, vectors));
  auto product = dyn_cast<MatmulOp>(op);
  if (!product)
    return collectiveScratch(op);
  runtime::Expected<int64_t> bytes = runtime::scratchpadBytes(gemmDesc(product, data.views), threads);
  return bytes ? *bytes : 0; // an impossible product is refused when the plan is loaded, with the library's reason
}

runtime::Expected<std::vector<std::string>> CpuTarget::emit(ArrayRef<KernelSource> kernels) const {
  notes.clear();
  if (kernels.empty())
    return std::vector<std::string>();
  const std::vector<KernelGroup> groups = groupsOf(kernels);
  runtime::Expected<std::string> key = runtime::Error("nothing is kept");
  if (!codeCache.place().empty())
    key = codeKey();
  std::vector<std::string> objects(groups.size()), keys(groups.size());
  std::vector<KernelGroup> missing;
  std::vector<size_t> places; // of those
  size_t own = 0;
  int64_t found = 0, lacked = 0;
  for (auto [i, group] : llvm::enumerate(groups)) {
    std::optional<std::string> known;
    if (auto *kernel = std::get_if<TextKernel>(group.front()); kernel && key) {
      ++own;
      keys[i] = buildText() + '\n' + *key + kernel->symbol + '\n' + kernel->text;
      known = codeCache.find(FileCache::kernels, keys[i]);
      ++(known ? found : lacked);
    }
    if (known) {
      objects[i] = std::move(*known);
      continue;
    }
    missing.push_back(group);
    places.push_back(i);
  }
  codeCache.count(FileCache::kernels, FileCache::Event::hit, found);
  codeCache.count(FileCache::kernels, FileCache::Event::miss, lacked);
  if (own > 0)
    notes = std::to_string(groups.size() - missing.size()) + " of attention's " + std::to_string(own) +
            " functions were compiled before";
  runtime::Expected<std::vector<std::string>> made = emitObjects(missing, options);
  if (!made)
    return made.error();
  for (auto [place, object] : llvm::zip_equal(places, *made)) {
    if (!keys[place].empty())
      if (runtime::Error problem = codeCache.store(FileCache::kernels, keys[place], object))
        notes += ", not kept: " + problem.message();
    objects[place] = std::move(object);
  }
  runtime::Expected<std::string> code = linkSharedObject(objects);
  return code ? std::vector<std::string>{std::move(*code)} : runtime::Expected<std::vector<std::string>>(code.error());
}

runtime::Expected<std::vector<std::string>> CpuTarget::emitAs(StringRef emission,
                                                              ArrayRef<KernelSource> kernels) const {
  const auto kind = llvm::StringSwitch<std::optional<Artefact>>(emission)
                        .Case("llvm", Artefact::llvm)
                        .Case("asm", Artefact::assembly)
                        .Case("obj", Artefact::object)
                        .Default(std::nullopt);
  if (!kind)
    return tcc::Target::emitAs(emission, kernels);
  runtime::Expected<std::string> code = emitKernels(kernels, options, *kind);
  if (!code)
    return code.error();
  return std::vector<std::string>{std::move(*code)};
}

runtime::Error CpuTarget::lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const {
  if (std::optional<AttentionForm> form = AttentionForm::of(call.op)) {
    lowerAttention(call, *form, threads, AttentionBlocks(*form, vectors), plan, kernels);
    return {};
  }
  if (isa<CustomOp>(call.op)) {
    lowerCustomCall(call, plan);
    return {};
  }
  if (isa<CollectiveOpInterface, WaitOp>(call.op)) {
    lowerCollective(call, plan);
    return {};
  }
  return lowerProduct(call, data, plan);
}

/// Products widen bf16 on a CPU without instructions for it, and f16 on all.
tcc::Target::FastProducts CpuTarget::fastProducts() const {
  const runtime::Expected<std::string> features = usedFeatures(options.target, {"avx512bf16"});
  return {features && !features->empty(), false};
}

/// A CPU's instructions are not enough: some multiply bf16 no faster.
bool CpuTarget::gainsFromBf16() const {
  return fastProducts().bf16 && runtime::machineLimits(threads).gainsFromBf16();
}

std::string CpuTarget::title() const {
  return codeName() + (options.target.cpu == "native" ? ", -march=native (" + nativeCpu() + ")" : "");
}

std::string CpuTarget::codeName() const {
  return options.target.cpu == "native" ? data.name : data.name + ":" + options.target.cpu;
}

runtime::Expected<std::string> CpuTarget::needs() const {
  return usedFeatures(options.target, runtime::knownCpuFeatures());
}

/// The machine is LLVM's, with its features resolved: what "native" is differs from host to host.
runtime::Expected<std::string> CpuTarget::codeKey() const {
  auto machine = createMachine(options.target);
  if (!machine)
    return machine.error();
  auto line = [](StringRef what, const Twine &value) { return (what + Twine(' ') + value + Twine('\n')).str(); };
  return line("target", codeName()) + line("llvm", LLVM_VERSION_STRING) +
         line("triple", (*machine)->getTargetTriple().str()) + line("cpu", (*machine)->getTargetCPU()) +
         line("features", (*machine)->getTargetFeatureString()) + line("vector bytes", Twine(vectors.lanes * 4)) +
         line("tiles", Twine(vectors.hasTiles)) + line("fast math", Twine(options.fastMath)) +
         line("steady", Twine(options.steady));
}

} // namespace tcc::cpu
