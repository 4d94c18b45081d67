// The GPU's table. Kernel calls of a plan become launches: one a call, whose parameters are addresses; the segments of
// one call, as many as they are, become a table in device memory and one launch.
#include "codegen/cuda/target.h"
#include "codegen/cuda/device/device_text.h"
#include "codegen/cuda/kernel/text.h"
#include "codegen/product.h"
#include "ir/dialect.h"
#include "runtime/device/cuda/nvrtc.h"
#include <cstring>

using namespace mlir;

namespace tcc::cuda {
namespace {

constexpr size_t kernelsInModule = 8;                 // NVRTC compiles modules side by side
constexpr int64_t workspaceBytes = int64_t(32) << 20; // what NVIDIA advises for cuBLASLt on Hopper

using runtime::BufferId;
using runtime::LaunchCall;

/// The kernel's parameters, added one by one.
void addPointer(LaunchCall &launch, BufferId buffer, bool written) {
  auto offset = static_cast<int64_t>(launch.parameters.size());
  launch.parameterOffsets.push_back(offset);
  launch.pointerSlots.push_back({offset, buffer, written, !written});
  launch.parameters.append(8, '\0');
}
void addInt(LaunchCall &launch, int32_t value) {
  launch.parameterOffsets.push_back(static_cast<int64_t>(launch.parameters.size()));
  launch.parameters.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Launches from the kernel calls of one plan.
class LaunchMaker {
public:
  LaunchMaker(ArrayRef<KernelSource> kernels, runtime::Plan &plan) : kernels(kernels), plan(plan) {}

  void run() {
    std::vector<runtime::Instruction> made;
    for (runtime::Instruction &instruction : plan.instructions) {
      auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
      if (!call) {
        made.push_back(std::move(instruction));
        continue;
      }
      runtime::KernelCall kernelCall = std::move(*call);
      if (divide(kernels[kernelCall.kernel].form).shape == KernelShape::segments)
        addSegments(kernelCall, instruction, made);
      else
        addLaunches(kernelCall, instruction, made);
    }
    plan.instructions = std::move(made);
    for (size_t i = 0; i < kernels.size(); ++i) {
      runtime::KernelCode &code = plan.kernels[i];
      code.module = static_cast<uint32_t>(i / kernelsInModule);
      if (divide(kernels[i].form).shape == KernelShape::segments) {
        code.arguments = 2; // the table and its entries
        code.results = 0;
      }
    }
  }

private:
  ArrayRef<KernelSource> kernels;
  runtime::Plan &plan;

  static LaunchCall start(uint32_t kernel, int64_t blocks, int64_t threads) {
    LaunchCall launch;
    launch.kernel = kernel;
    launch.grid = {blocks, 1, 1};
    launch.block = {threads, 1, 1};
    return launch;
  }

  void addLaunches(const runtime::KernelCall &call, const runtime::Instruction &like,
                   std::vector<runtime::Instruction> &made) {
    const KernelInfo &form = kernels[call.kernel].form;
    KernelDivision division = divide(form);
    if (division.blocks == 0)
      return;
    for (const runtime::Segment &segment : call.segments) {
      LaunchCall launch = start(call.kernel, division.blocks, division.threads);
      for (size_t i = 0; i < segment.args.size(); ++i)
        addPointer(launch, segment.args[i], i >= form.arguments.size());
      made.push_back(like);
      made.back().flops /= static_cast<int64_t>(call.segments.size());
      made.back().bytes /= static_cast<int64_t>(call.segments.size());
      made.back().call = std::move(launch);
    }
  }

  void addSegments(const runtime::KernelCall &call, const runtime::Instruction &like,
                   std::vector<runtime::Instruction> &made) {
    const KernelInfo &form = kernels[call.kernel].form;
    int64_t entryBytes = segmentEntryBytes(form), blocks = 0, at = 0;
    runtime::PointerTable table;
    table.bytes.assign(static_cast<size_t>(entryBytes) * call.segments.size(), '\0');
    for (const runtime::Segment &segment : call.segments) {
      for (size_t i = 0; i < segment.args.size(); ++i)
        table.slots.push_back(
            {at + static_cast<int64_t>(8 * i), segment.args[i], i >= form.arguments.size(), i < form.arguments.size()});
      std::memcpy(&table.bytes[static_cast<size_t>(at + entryBytes - 16)], &segment.extent, 8);
      std::memcpy(&table.bytes[static_cast<size_t>(at + entryBytes - 8)], &blocks, 8);
      blocks += (segment.extent + segmentBlock - 1) / segmentBlock;
      at += entryBytes;
    }
    LaunchCall launch = start(call.kernel, blocks, divide(form).threads);
    auto buffer = static_cast<BufferId>(plan.buffers.size());
    plan.buffers.push_back({runtime::Space::table, static_cast<uint32_t>(plan.tables.size()), 0,
                            static_cast<int64_t>(table.bytes.size())});
    plan.tables.push_back(std::move(table));
    addPointer(launch, buffer, false);
    addInt(launch, static_cast<int32_t>(call.segments.size()));
    made.push_back(like);
    made.back().call = std::move(launch);
  }
};

} // namespace

TargetModel cudaModel() {
  TargetModel model;
  model.name = "cuda";
  model.columnParts = 264; // two for each multiprocessor of an H200
  model.fewestRows = 64;
  model.longestRow = 65536;
  model.alignment = 256;
  return model;
}

bool CudaTarget::supports(StringRef op) const {
  return op == MatmulOp::getOperationName();
}

KernelLaunch CudaTarget::launch(const KernelInfo &form) const {
  // A segment's extent is its number of elements; other kernels are launched as a whole.
  KernelDivision division = divide(form);
  return {division.shape == KernelShape::segments ? form.space.columns : 1, 1};
}

int64_t CudaTarget::scratchBytes(Operation *op) const {
  return isa<MatmulOp>(op) ? workspaceBytes : 0;
}

std::vector<std::string> moduleTexts(ArrayRef<KernelSource> kernels) {
  std::vector<std::string> texts;
  for (auto [i, source] : llvm::enumerate(kernels)) {
    if (i % kernelsInModule == 0)
      texts.emplace_back();
    texts.back() += (texts.back().empty() ? "" : "\n") + kernelText(source);
  }
  return texts;
}

std::optional<std::vector<std::string>> CudaTarget::emit(ArrayRef<KernelSource> kernels, std::string &error) const {
  for (const KernelSource &source : kernels)
    if (std::string why = refusal(source.form); !why.empty()) {
      error = "kernel '" + source.symbol + "': " + why;
      return std::nullopt;
    }
  std::vector<std::string> cubins;
  if (kernels.empty())
    return cubins;
  std::vector<runtime::cuda::CompileRequest> requests;
  for (auto [i, text] : llvm::enumerate(moduleTexts(kernels)))
    requests.push_back({.name = "module" + std::to_string(i) + ".cu",
                        .text = deviceText(Prelude::Portable) + text,
                        .architecture = options.architecture,
                        .options = {"--fmad=false"},
                        .refuseFindings = false}); // a spill is slow, no error
  try {
    runtime::cuda::Nvrtc nvrtc = runtime::cuda::Nvrtc::open();
    if (!nvrtc.supports(options.architecture)) {
      error = "this NVRTC (" + nvrtc.path() + ") does not know the architecture '" + options.architecture + "'";
      return std::nullopt;
    }
    for (runtime::cuda::CompileResult &result : nvrtc.compileAll(requests)) {
      if (!result.error.empty()) {
        error = result.error;
        return std::nullopt;
      }
      cubins.emplace_back(result.cubin.begin(), result.cubin.end());
    }
  } catch (const runtime::CudaError &failure) {
    error = failure.what();
    return std::nullopt;
  }
  return cubins;
}

bool CudaTarget::lower(const StructuredCall &call, runtime::Plan &plan, std::string &error) const {
  auto product = dyn_cast<MatmulOp>(call.op);
  if (!product) {
    error = "'" + call.op->getName().getStringRef().str() + "' has no lowering for target '" + data.name + "'";
    return false;
  }
  plan.instructions.push_back(lowerProduct(product, call, data.views));
  return true;
}

bool CudaTarget::lowerKernels(ArrayRef<KernelSource> kernels, runtime::Plan &plan, std::string &) const {
  LaunchMaker(kernels, plan).run();
  plan.alignment = data.alignment;
  return true;
}

} // namespace tcc::cuda
