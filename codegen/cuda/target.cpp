// The GPU's side of Target. A kernel call of a plan becomes one launch, whose parameters are addresses; where the call
// has several segments, the addresses stand in a table in device memory.
#include "codegen/cuda/target.h"
#include "codegen/collective.h"
#include "codegen/cuda/cubin.h"
#include "codegen/cuda/kernel/text.h"
#include "codegen/cuda/lower_attention.h"
#include "codegen/cuda/lower_custom.h"
#include "codegen/cuda/modules.h"
#include "codegen/cuda/stated_limits.h"
#include "codegen/product.h"
#include "ir/dialect.h"
#include "runtime/device/cuda/nvrtc.h"
#include <bit>
#include <cstring>

using namespace mlir;

namespace tcc::cuda {
namespace {

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

/// Makes launches of one plan's kernel calls.
class LaunchMaker {
public:
  LaunchMaker(ArrayRef<KernelSource> kernels, runtime::Plan &plan) : kernels(kernels), plan(plan) {}

  void run() {
    for (auto [i, module] : llvm::enumerate(modulesOf(kernels))) {
      plan.kernels[i].module = module;
      plan.kernels[i].arguments += isSegments(i) ? 1 : 0;
    }
    for (size_t i = 0; i < kernels.size(); ++i)
      addJoinedFunction(i);
    std::vector<runtime::Instruction> made;
    std::vector<size_t> place; // by instruction: how many are in front of it now
    for (runtime::Instruction &instruction : plan.instructions) {
      place.push_back(made.size());
      auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
      if (!call) {
        made.push_back(std::move(instruction));
        continue;
      }
      runtime::KernelCall kernelCall = std::move(*call);
      if (divide(formOf(kernelCall.kernel)).blocks == 0)
        continue;
      instruction.call = isAlone(kernelCall) ? launchAlone(kernelCall) : launchJoined(kernelCall);
      made.push_back(std::move(instruction));
    }
    place.push_back(made.size());
    for (size_t i = 0; i + 1 < place.size(); ++i)
      if (place[i] < place[i + 1])
        runtime::visitParts(made[place[i]], [&, begin = i + 1](uint32_t &part) mutable { // as many as are left of it
          const size_t end = begin + part;
          part = static_cast<uint32_t>(place[end] - place[begin]);
          begin = end;
        });
    plan.instructions = std::move(made);
  }

private:
  ArrayRef<KernelSource> kernels;
  runtime::Plan &plan;

  std::vector<uint32_t> joinedFunction; // by kernel: the function for many sets of tensors

  /// The form of a kernel that is called. Kernels that are texts have launches from the start.
  const KernelInfo &formOf(size_t kernel) const { return std::get<FormKernel>(kernels[kernel]).form; }

  /// Whether the call passes one set of tensors to the function for that. What is left of a group of joined kernels may
  /// be one set too, where no such function was made.
  bool isAlone(const runtime::KernelCall &call) const {
    return call.segments.size() == 1 && std::get<FormKernel>(kernels[call.kernel]).alone;
  }

  bool isSegments(size_t kernel) const {
    const auto *source = std::get_if<FormKernel>(&kernels[kernel]);
    return source && divide(source->form).shape == KernelShape::segments;
  }

  /// Adds the function for joined calls, beside the one for one set of tensors or in its place.
  void addJoinedFunction(size_t i) {
    joinedFunction.push_back(static_cast<uint32_t>(i));
    const auto *source = std::get_if<FormKernel>(&kernels[i]);
    if (!source || !source->joined)
      return;
    runtime::KernelCode code = plan.kernels[i];
    code.symbol = functionName(source->symbol, KernelCalling::joined);
    code.arguments = isSegments(i) ? 3 : 1;
    code.results = 0;
    if (source->alone) {
      joinedFunction[i] = static_cast<uint32_t>(plan.kernels.size());
      plan.kernels.push_back(std::move(code));
    } else {
      plan.kernels[i] = std::move(code);
    }
  }

  LaunchCall start(const KernelDivision &division, uint32_t function) const {
    LaunchCall launch;
    launch.kernel = function;
    launch.grid = {division.blocks, 1, 1};
    launch.block = {division.threads, 1, 1};
    launch.sharedBytes = division.sharedBytes;
    return launch;
  }

  LaunchCall launchAlone(const runtime::KernelCall &call) const {
    const KernelInfo &form = formOf(call.kernel);
    const runtime::Segment &segment = call.segments.front();
    LaunchCall launch = start(divide(form), call.kernel);
    for (size_t i = 0; i < segment.args.size(); ++i)
      addPointer(launch, segment.args[i], i >= form.arguments.size());
    if (isSegments(call.kernel)) { // the form is that of the shortest segment
      launch.grid[0] = llvm::divideCeil(segment.extent, segmentBlock);
      addInt(launch, static_cast<int32_t>(segment.extent));
    }
    return launch;
  }

  LaunchCall launchJoined(const runtime::KernelCall &call) {
    const KernelInfo &form = formOf(call.kernel);
    bool segments = isSegments(call.kernel);
    int64_t entryBytes = tableEntryBytes(form), blocks = 0, at = 0;
    runtime::PointerTable table;
    table.bytes.assign(static_cast<size_t>(entryBytes) * call.segments.size(), '\0');
    for (const runtime::Segment &segment : call.segments) {
      for (size_t i = 0; i < segment.args.size(); ++i)
        table.slots.push_back(
            {at + static_cast<int64_t>(8 * i), segment.args[i], i >= form.arguments.size(), i < form.arguments.size()});
      if (segments) {
        std::memcpy(&table.bytes[static_cast<size_t>(at + entryBytes - 16)], &segment.extent, 8);
        std::memcpy(&table.bytes[static_cast<size_t>(at + entryBytes - 8)], &blocks, 8);
        blocks += llvm::divideCeil(segment.extent, segmentBlock);
      }
      at += entryBytes;
    }
    LaunchCall launch = start(divide(form), joinedFunction[call.kernel]);
    auto count = static_cast<int32_t>(call.segments.size());
    auto buffer = static_cast<BufferId>(plan.buffers.size());
    plan.buffers.push_back({runtime::Space::table, static_cast<uint32_t>(plan.tables.size()), 0,
                            static_cast<int64_t>(table.bytes.size())});
    plan.tables.push_back(std::move(table));
    addPointer(launch, buffer, false);
    if (segments) {
      launch.grid[0] = blocks;
      addInt(launch, count);
      addInt(launch, static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(count - 1))));
    } else {
      launch.grid[1] = count;
    }
    return launch;
  }
};

} // namespace

/// Whether cuBLASLt can multiply this by GELU's slopes: in 16 bits, where rows, those of operands too, have a multiple
/// of eight elements.
static bool isSlopedProduct(MatmulGeluGradientOp op, const ViewLimits &limits) {
  RankedTensorType type = tensorType(op.getX());
  Type element = type.getElementType();
  if ((!element.isBF16() && !element.isF16()) || type.getNumElements() == 0 || type.getDimSize(1) % 8 != 0 ||
      tensorType(op.getA()).getDimSize(1) == 0)
    return false;
  const runtime::GemmDesc desc = gemmDesc(op, limits);
  return llvm::all_of(ArrayRef{desc.a, desc.b}, [](const runtime::MatrixLayout &operand) {
    return (operand.columnStride == 1 ? operand.rowStride : operand.columnStride) % 8 == 0;
  });
}

TargetModel cudaModel() {
  TargetModel model;
  model.name = "cuda";
  model.columnParts = 528; // four for each multiprocessor of an H200: a divisor near it leaves at least two
  model.fewestRows = 64;
  model.longestRow = 65536;
  model.alignment = 256;
  model.scatterAlone = true;
  model.joinedBytes = 16 << 20; // a launch is worth megabytes
  model.multipliesF16 = true;
  model.narrowActivations = true;
  model.packedOnceRows = 0;
  model.padding.wide = {};
  // Loads of 16 bytes need multiples of 8. Padding a vocabulary of 50257 is published as +13.7 % tokens/s on an A100,
  // where the head's three matmuls are a third of the flops.
  model.padding.narrow = {.transposed = 0.3, .other = 0.3};
  model.epilogues = {.narrowBias = true, .inPlace = false, .addendPrice = 1}; // cuBLASLt's
  model.padding.steadyShare = 0.05;
  model.padding.flopsPerByte = 180; // an H200's measured 790 TFLOP/s over its 4.3 TB/s
  return model;
}

bool CudaTarget::supports(StringRef op) const {
  return op == RepeatOp::getOperationName() || op == MatmulOp::getOperationName() ||
         op == MatmulGeluGradientOp::getOperationName() || op == FlashAttentionOp::getOperationName() ||
         op == FlashAttentionBackwardOp::getOperationName() ||
         op == FlashAttentionPackedGradientOp::getOperationName() || op == CustomOp::getOperationName() ||
         op == ShardOp::getOperationName() || op == AllToAllOp::getOperationName() ||
         op == AllGatherOp::getOperationName() || op == AllReduceOp::getOperationName() ||
         op == WaitOp::getOperationName();
}

/// Tensor cores multiply f16 from sm_70 on, bf16 and TF32 from sm_80 on.
Target::FastProducts CudaTarget::fastProducts() const {
  StringRef digits = StringRef(options.architecture).drop_until(llvm::isDigit).take_while(llvm::isDigit);
  int number = 0;
  digits.getAsInteger(10, number);
  return {number >= 80, number >= 70, number >= 80};
}

KernelLaunch CudaTarget::launch(const KernelInfo &form) const {
  // A segment's extent is its number of elements; other kernels are launched as a whole.
  KernelDivision division = divide(form);
  return {division.shape == KernelShape::segments ? form.space.columns : 1, 1};
}

int64_t CudaTarget::scratchBytes(Operation *op) const {
  if (isa<CollectiveOpInterface, WaitOp>(op))
    return collectiveScratch(op);
  return isa<MatmulOp, MatmulGeluGradientOp>(op) ? workspaceBytes : attentionScratchBytes(op);
}

bool CudaTarget::hasKernel(Operation *op) const {
  if (auto custom = dyn_cast<CustomOp>(op))
    return custom.hasTextFor(data.name);
  auto product = dyn_cast<MatmulGeluGradientOp>(op);
  return product ? isSlopedProduct(product, data.views) : hasAttentionKernel(op);
}

std::string CudaTarget::remarkOn(Operation *op) const {
  return attentionRemark(op, options.architecture);
}

runtime::Expected<std::vector<std::string>> CudaTarget::emit(ArrayRef<KernelSource> kernels) const {
  const bool isVirtual = StringRef(options.architecture).starts_with("compute_");
  return compileModules(kernels, options, isVirtual ? CodeKind::ptx : CodeKind::cubin, codeCache, notes);
}

runtime::Expected<std::vector<std::string>> CudaTarget::emitAs(StringRef emission,
                                                               ArrayRef<KernelSource> kernels) const {
  std::vector<std::string> texts;
  if (emission == "cuda") {
    for (ModuleText &module : moduleTexts(kernels, options.steady))
      texts.push_back(std::move(module.text));
    return texts;
  }
  if (emission == "ptx")
    return compileModules(kernels, options, CodeKind::ptx, codeCache, notes);
  if (emission != "cubin")
    return Target::emitAs(emission, kernels);
  if (StringRef(options.architecture).starts_with("compute_"))
    return runtime::Error("-emit=cubin for " + options.architecture + ", which is no GPU's; -emit=ptx prints its code");
  return compileModules(kernels, options, CodeKind::cubin, codeCache, notes);
}

runtime::Expected<std::vector<KernelUse>> CudaTarget::usesOf(ArrayRef<std::string> code) const {
  if (StringRef(options.architecture).starts_with("compute_"))
    return runtime::Error("a driver gives registers to the code for " + options.architecture +
                          ", which is PTX; -march=sm_90a and its kin are machine code");
  std::vector<KernelUse> uses;
  if (code.empty())
    return runtime::Error("no machine code was made; compiling without -emit= makes it, by NVRTC");
  for (const std::string &cubin : code) {
    auto some = usesInCubin(cubin);
    if (!some)
      return some.error();
    llvm::append_range(uses, *some);
  }
  return uses;
}

StatedLimits CudaTarget::statedLimits() const {
  return statedLimitsOf(options.architecture);
}

/// NVRTC is part of the key: which one compiles the text depends on the machine.
runtime::Expected<std::string> CudaTarget::codeKey() const {
  try {
    return "target " + codeName() + (options.tf32 ? "\ntf32" : "") + (options.steady ? "\nsteady" : "") + "\nnvrtc " +
           runtime::cuda::Nvrtc::open().identity() + "\n";
  } catch (const runtime::CudaError &missing) {
    return runtime::Error(missing.what());
  }
}

runtime::Error CudaTarget::lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const {
  if (isa<CustomOp>(call.op))
    return lowerCustomLaunch(call, plan, kernels);
  if (isa<CollectiveOpInterface, WaitOp>(call.op)) {
    lowerCollective(call, plan);
    return {};
  }
  if (hasAttentionKernel(call.op))
    return lowerAttention(call, options.architecture, plan, kernels);
  if (auto product = dyn_cast<MatmulGeluGradientOp>(call.op)) {
    plan.instructions.push_back(lowerProduct(product, call, data.views));
    return {};
  }
  if (runtime::Error problem = lowerProduct(call, data, plan))
    return problem;
  runtime::GemmDesc &desc = std::get<runtime::MatmulCall>(plan.instructions.back().call).desc;
  desc.tf32 = options.tf32 && fastProducts().tf32 && desc.a.dtype == runtime::DType::f32;
  return {};
}

runtime::Error CudaTarget::lowerKernels(ArrayRef<KernelSource> kernels, runtime::Plan &plan) const {
  for (const runtime::Instruction &instruction : plan.instructions)
    if (const auto *call = std::get_if<runtime::KernelCall>(&instruction.call))
      for (const runtime::Segment &segment : call->segments)
        for (BufferId buffer : segment.args)
          if (plan.buffers[buffer].offset % 16 != 0) // kernels take 16 bytes at once
            return runtime::Error("kernel '" + instruction.label + "' has a tensor that starts at byte " +
                                  std::to_string(plan.buffers[buffer].offset) +
                                  "; a multiple of 16 is expected (compiler bug)");
  LaunchMaker(kernels, plan).run();
  plan.alignment = data.alignment;
  return {};
}

} // namespace tcc::cuda
