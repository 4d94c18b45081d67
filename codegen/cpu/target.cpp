// What the CPU has: the ops that it runs, their scratch, the code of its kernels, and what that code depends on.
#include "codegen/cpu/target.h"
#include "codegen/build_id.h"
#include "codegen/collective.h"
#include "codegen/cpu/lower_attention.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/shared_code.h"
#include "codegen/cpu/tune_kernels.h"
#include "codegen/custom.h"
#include "codegen/product.h"
#include "ir/dialect.h"
#include "runtime/cpu.h"
#include "runtime/machine_limits.h"
#include "llvm/ADT/StringSwitch.h"
#include <filesystem>
#include <map>

using namespace mlir;

namespace tcc::cpu {

/// Where there are instructions for bf16, matmuls are so fast that the bytes that they read and write count.
CpuTarget::CpuTarget(EmitOptions given, int threads) : options(std::move(given)), threads(threads) {
  if (auto machine = createMachine(options.target)) // the error of an unknown CPU is given by emit
    vectors = vectorTarget(**machine, options.target);
  data.narrowActivations = vectors.hasTiles || vectors.hasBf16Products;
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
  return bytes ? *bytes : 0; // an impossible matmul is refused when the plan is loaded, with the library's reason
}

int64_t CpuTarget::packedBytes(const runtime::MatmulCall &call) const {
  const runtime::Expected<int64_t> bytes = runtime::packedBytes(call.desc, threads);
  return bytes ? *bytes : 0;
}

/// The functions of attention are on disk too: they take longest, and any step may have them.
runtime::Expected<std::vector<std::string>> CpuTarget::emitWith(ArrayRef<KernelSource> kernels,
                                                                runtime::Ranks *ranks) const {
  notes.clear();
  if (kernels.empty() && !ranks)
    return std::vector<std::string>();
  SharedCode code(kernels, options);
  std::map<size_t, std::string> keys; // of what the disk lacks
  int64_t found = 0, lacked = 0;
  if (const runtime::Expected<std::string> machine = codeKey(); machine && !codeCache.place().empty())
    for (auto [i, kernel] : llvm::enumerate(kernels)) {
      const auto *written = std::get_if<TextKernel>(&kernel);
      if (!written)
        continue;
      std::string key = buildText() + '\n' + *machine + written->symbol + '\n' + written->text;
      if (code.has(i)) {
        if (std::error_code unknown; !std::filesystem::exists(codeCache.fileOf(FileCache::kernels, key), unknown))
          keys[i] = std::move(key);
      } else if (std::optional<std::string> known = codeCache.find(FileCache::kernels, key)) {
        code.add(i, std::move(*known));
        ++found;
      } else {
        keys[i] = std::move(key);
        ++lacked;
      }
    }
  codeCache.count(FileCache::kernels, FileCache::Event::hit, found);
  codeCache.count(FileCache::kernels, FileCache::Event::miss, lacked);
  if (const size_t known = kernels.size() - code.missing().size(); known > 0)
    notes = std::to_string(known) + " of " + std::to_string(kernels.size()) + " kernels were compiled before";
  if (ranks)
    if (runtime::Error error = code.compileTogether(*ranks, buildText()))
      return error;
  if (const size_t received = code.receivedCount(); received > 0)
    notes += (notes.empty() ? "" : ", ") + std::to_string(received) + " came from other ranks";
  if (runtime::Error error = code.compileMissing())
    return error;
  if (kernels.empty())
    return std::vector<std::string>();
  for (const auto &[i, key] : keys)
    if (code.isReceived(i)) // whoever has made it keeps it
      continue;
    else if (runtime::Error problem = codeCache.store(FileCache::kernels, key, code.object(i)))
      notes += (notes.empty() ? "" : ", ") + ("not kept: " + problem.message());
  runtime::Expected<std::string> linked = code.link();
  return linked ? std::vector<std::string>{std::move(*linked)}
                : runtime::Expected<std::vector<std::string>>(linked.error());
}

runtime::Expected<std::vector<std::string>> CpuTarget::emit(ArrayRef<KernelSource> kernels) const {
  return emitWith(kernels, nullptr);
}

runtime::Expected<std::vector<std::string>> CpuTarget::emitTogether(ArrayRef<KernelSource> kernels,
                                                                    runtime::Ranks &ranks) const {
  return emitWith(kernels, &ranks);
}

runtime::Expected<TuningReport> CpuTarget::tune(std::vector<KernelSource> &kernels, runtime::Plan &plan,
                                                const TuningOptions &options) const {
  if (this->options.target.cpu == "native")
    return tuneKernels(kernels, plan, this->options, nativeCpu(), options);
  TuningReport report;
  report.whyNot = "the code is for " + codeName() + ", which need not be this machine's CPU";
  return report;
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

/// Matmuls widen bf16 on a CPU without instructions for it, and f16 on all.
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

runtime::Expected<std::string> CpuTarget::codeKey() const {
  runtime::Expected<std::string> machine = machineKey(options);
  if (!machine)
    return machine.error();
  return "target " + codeName() + '\n' + *machine;
}

} // namespace tcc::cpu
