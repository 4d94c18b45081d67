// Makes launches of attention ops from (1) the problem that both ops have in common, (2) arguments with their views,
// and (3) for each pass a kernel from the table of tiles, its block of parameters, and slots for addresses and tensor
// maps.
#include "codegen/cuda/lower_attention.h"
#include "codegen/cuda/attention/attention.h"
#include "codegen/lower_plan.h"
#include "ir/ops/attention.h"
#include "ir/ops/dropout.h"
#include "ir/ops/numbers.h"
#include "passes/memory_places.h"
#include <cmath>
#include <cstddef>
#include <cstring>

using namespace mlir;

namespace tcc::cuda {
namespace {

using runtime::BufferId;
using runtime::noBuffer;

constexpr int64_t mostRows = int64_t(1) << 30; // sums of two positions are 32-bit numbers
constexpr int64_t mostBlocks = 65535;          // along a grid's second and third axis
constexpr int64_t workspaceAlignment = 256;
constexpr size_t mapBytes = 128;

//===- the problem ---------------------------------------------------------------------------------------------===//

struct Problem {
  AttentionSizes sizes;
  AttentionMask mask;
  Type element;
  double scale;
  std::optional<double> rate; // of dropout
  uint64_t stream;
  bool bias;

  AttentionArguments arguments() const;
  AttentionCase caseOf(AttentionPass pass) const {
    AttentionCase of;
    of.pass = pass;
    of.element = element.isBF16() ? AttentionElement::Bf16 : AttentionElement::F16;
    of.headDim = static_cast<int>(sizes.width);
    of.causal = mask.diagonal.has_value();
    of.window = mask.window.has_value();
    of.dropout = rate.has_value();
    of.bias = bias;
    return of;
  }
};

template <typename Op>
Problem problemOf(Op op) {
  return {attentionSizes(op),
          attentionMask(op),
          tensorType(op.getQ()).getElementType(),
          op.getScale().convertToDouble(),
          op.getRate() ? std::optional(op.getRate()->convertToDouble()) : std::nullopt,
          op.getStream().value_or(0),
          static_cast<bool>(op.getBias())};
}

std::optional<Problem> problemOf(Operation *op) {
  if (auto forward = dyn_cast<FlashAttentionOp>(op))
    return problemOf(forward);
  if (auto backward = dyn_cast<FlashAttentionBackwardOp>(op))
    return problemOf(backward);
  if (auto packed = dyn_cast<FlashAttentionPackedGradientOp>(op))
    return problemOf(packed);
  return std::nullopt;
}

/// Everything but addresses and strides.
AttentionArguments Problem::arguments() const {
  AttentionArguments made{};
  made.stream = static_cast<unsigned>(stream);
  made.dropBelow = dropThreshold(rate.value_or(0));
  made.keepScale = static_cast<float>(keepScale(rate.value_or(0)));
  made.scale = static_cast<float>(scale);
  made.queries = static_cast<int>(sizes.queries);
  made.keys = static_cast<int>(sizes.keys);
  made.heads = static_cast<int>(sizes.heads);
  made.group = static_cast<int>(sizes.group());
  made.diagonal = static_cast<int>(mask.diagonal.value_or(0));
  made.window = static_cast<int>(mask.window.value_or(0));
  made.batch = static_cast<int>(sizes.batch);
  return made;
}

//===- one launch ----------------------------------------------------------------------------------------------===//

/// A pointer of the arguments: where it stands, and what it points to.
struct Pointer {
  size_t offset;
  BufferId buffer;
  bool written;
  bool keepsOthers = false; // written in rows between which others' stay
};

/// The strides of [B, T, H, d] as kernels take them. Those of a dimension of one element mean nothing, but a tensor map
/// wants some.
AttentionView viewOf(const StridedView &view) {
  auto stride = [&](unsigned dim) { return view.sizes[dim] == 1 ? view.sizes[3] : view.strides[dim]; };
  return {nullptr, stride(0), stride(2), stride(1)};
}

AttentionView denseHeads(const AttentionSizes &sizes, int64_t rows, int64_t heads) {
  return {nullptr, rows * heads * sizes.width, sizes.width, heads * sizes.width};
}

/// Where the gradients of queries, keys and values go: tensors of their own, or one with all heads side by side.
struct Gradients {
  BufferId query, key, value;
  AttentionView queryView, keyView; // the values' is the keys'
};

/// Makes the launches of one op.
class AttentionLowering {
public:
  AttentionLowering(const StructuredCall &call, StringRef architecture, runtime::Plan &plan, KernelTable &kernels)
      : call(call), problem(*problemOf(call.op)), architecture(architecture), plan(plan), kernels(kernels),
        arguments(problem.arguments()) {}

  runtime::Error forward() {
    bind(&AttentionArguments::output, denseHeads(problem.sizes, problem.sizes.queries, problem.sizes.heads),
         call.results[0], true);
    bindOperands(false);
    pointers.push_back({offsetof(AttentionArguments, logSumExp), call.results[1], true});
    return launch(AttentionPass::Forward, "flash_attention", cast<FlashAttentionOp>(call.op).flops());
  }

  runtime::Error backward() {
    int64_t flops = cast<StructuredOpInterface>(call.op).flops();
    int64_t half = plan.buffers[call.scratch].bytes / 2;
    BufferId rowShift = part(call.scratch, 0, half), rowDelta = part(call.scratch, half, half);
    Gradients to = gradients();
    // Scores, their gradient, dQ; then scores and gradient again, dK, dV.
    bindOperands(true);
    bind(&AttentionArguments::output, viewOf(call.views[3]), call.operands[3], false);
    bind(&AttentionArguments::queryGradient, to.queryView, to.query, true);
    pointers.push_back({offsetof(AttentionArguments, logSumExp), call.operands[4], false});
    bindRows(rowShift, rowDelta, true);
    if (runtime::Error error = launch(AttentionPass::BackwardQuery, "flash_attention_backward dq", 3 * (flops / 5)))
      return error;
    bindOperands(true);
    bind(&AttentionArguments::keyGradient, to.keyView, to.key, true);
    bind(&AttentionArguments::valueGradient, to.keyView, to.value, true);
    bindRows(rowShift, rowDelta, false);
    return launch(AttentionPass::BackwardKeys, "flash_attention_backward dk dv", 2 * (flops / 5));
  }

private:
  const StructuredCall &call;
  const Problem problem;
  StringRef architecture;
  runtime::Plan &plan;
  KernelTable &kernels;
  AttentionArguments arguments;
  SmallVector<Pointer, 12> pointers;                   // of the launch that is being made
  SmallVector<std::pair<BufferId, int64_t>> partBytes; // of the parts of one result: the bytes of their own rows

  BufferId part(BufferId whole, int64_t offset, int64_t bytes) {
    runtime::Buffer made = plan.buffers[whole];
    made.offset += offset;
    made.bytes = bytes;
    plan.buffers.push_back(made);
    return static_cast<BufferId>(plan.buffers.size() - 1);
  }

  Gradients gradients() {
    const AttentionSizes &sizes = problem.sizes;
    if (!isa<FlashAttentionPackedGradientOp>(call.op))
      return {call.results[0], call.results[1], call.results[2], denseHeads(sizes, sizes.queries, sizes.heads),
              denseHeads(sizes, sizes.keys, sizes.keyHeads)};
    const int64_t heads = sizes.heads + 2 * sizes.keyHeads;
    const AttentionView view = denseHeads(sizes, sizes.queries, heads);
    auto from = [&](int64_t head) { // to the last element: rows lie among those of the others
      const int64_t bytes = plan.buffers[call.results[0]].bytes,
                    headBytes = sizes.width * elementBytes(problem.element);
      const BufferId made = part(call.results[0], head * headBytes, bytes - head * headBytes);
      partBytes.push_back({made, bytes / heads * (head == 0 ? sizes.heads : sizes.keyHeads)});
      return made;
    };
    return {from(0), from(sizes.heads), from(sizes.heads + sizes.keyHeads), view, view};
  }

  void bind(AttentionView AttentionArguments::*member, AttentionView view, BufferId buffer, bool written) {
    arguments.*member = view;
    auto offset = reinterpret_cast<char *>(&(arguments.*member).data) - reinterpret_cast<char *>(&arguments);
    // The first part stands for the whole: nothing of the result is there before it.
    const bool keepsOthers =
        written &&
        llvm::is_contained(llvm::drop_begin(llvm::make_first_range(partBytes), partBytes.empty() ? 0 : 1), buffer);
    pointers.push_back({static_cast<size_t>(offset), buffer, written, keepsOthers});
  }

  void bindOperands(bool isBackward) {
    bind(&AttentionArguments::query, viewOf(call.views[0]), call.operands[0], false);
    if (isBackward)
      bind(&AttentionArguments::outputGradient, viewOf(call.views[5]), call.operands[5], false);
    bind(&AttentionArguments::key, viewOf(call.views[1]), call.operands[1], false);
    bind(&AttentionArguments::value, viewOf(call.views[2]), call.operands[2], false);
    bindBias();
    bindDropout();
  }

  /// The number of the first operand after those of every attention: the bias, or the dropout's seed.
  size_t firstOptional() const { return isa<FlashAttentionOp>(call.op) ? 3 : 6; }

  void bindBias() {
    if (!problem.bias)
      return;
    const StridedView &view = call.views[firstOptional()];
    arguments.biasBatchStride = view.strides[0];
    arguments.biasHeadStride = view.strides[1];
    arguments.biasRowStride = view.strides[2];
    pointers.push_back({offsetof(AttentionArguments, bias), call.operands[firstOptional()], false});
  }

  /// A seed of one word, and a batch that is no part of another, have zeros after the other pointers.
  void bindDropout() {
    if (!problem.rate)
      return;
    const size_t operand = firstOptional() + (problem.bias ? 1 : 0);
    const BufferId seed = call.operands[operand];
    const bool isWide = byteSize(tensorType(call.op->getOperand(operand))) > 4;
    const bool hasFirst = call.operands.size() > operand + 1;
    const BufferId zero = isWide && hasFirst ? noBuffer : constantOf(std::string(4, '\0'), plan);
    pointers.push_back({offsetof(AttentionArguments, seedLow), part(seed, 0, 4), false});
    pointers.push_back({offsetof(AttentionArguments, seedHigh), isWide ? part(seed, 4, 4) : zero, false});
    pointers.push_back({offsetof(AttentionArguments, first), hasFirst ? call.operands[operand + 1] : zero, false});
  }

  void bindRows(BufferId shift, BufferId delta, bool written) {
    pointers.push_back({offsetof(AttentionArguments, rowShift), shift, written});
    pointers.push_back({offsetof(AttentionArguments, rowDelta), delta, written});
  }

  runtime::Error launch(AttentionPass pass, StringRef name, int64_t flops) {
    AttentionCase of = problem.caseOf(pass);
    const auto tiles = chooseAttention(of, architecture, problem.sizes.keys);
    const auto chosen = tiles ? attentionKernel(of, *tiles) : tiles.error();
    if (!chosen)
      return chosen.error();
    const AttentionKernel &kernel = *chosen;
    int batch = static_cast<int>(problem.sizes.batch);
    if (std::string refusal = checkAttention(of, withPlaces()); !refusal.empty())
      return runtime::Error(std::move(refusal));
    runtime::LaunchCall made;
    std::array<unsigned, 3> grid = attentionGrid(kernel, arguments, batch);
    made.grid = {grid[0], grid[1], grid[2]};
    made.loops = tiles->persistent;
    made.block = {kernel.threads, 1, 1};
    made.sharedBytes = kernel.sharedBytes;
    made.parameters.assign(reinterpret_cast<const char *>(&arguments), sizeof arguments);
    made.parameterOffsets = {0};
    llvm::sort(pointers, [](const Pointer &a, const Pointer &b) { return a.offset < b.offset; });
    for (const Pointer &pointer : pointers)
      made.pointerSlots.push_back({static_cast<int64_t>(pointer.offset), pointer.buffer, pointer.written,
                                   !pointer.written || pointer.keepsOthers});
    addMaps(attentionMaps(kernel, arguments, batch), made);
    made.kernel = addKernel(plan, kernels, {kernel.name, kernel.text},
                            static_cast<uint32_t>(made.parameterOffsets.size()), name.str());
    runtime::Instruction instruction;
    instruction.label = label(name);
    instruction.flops = flops;
    instruction.arithmetic = problem.element.isBF16() ? runtime::DType::bf16 : runtime::DType::f16;
    for (const Pointer &pointer : pointers)
      instruction.bytes += bytesOf(pointer.buffer);
    instruction.call = std::move(made);
    plan.instructions.push_back(std::move(instruction));
    pointers.clear();
    arguments = problem.arguments();
    return {};
  }

  /// Maps of the query, the output's gradient (backward), the keys, the values: each 128 bytes, after the arguments.
  void addMaps(ArrayRef<AttentionMap> maps, runtime::LaunchCall &made) {
    SmallVector<BufferId> buffers = {call.operands[0]};
    if (!isa<FlashAttentionOp>(call.op))
      buffers.push_back(call.operands[5]);
    buffers.append({call.operands[1], call.operands[2]});
    for (auto [i, map] : llvm::enumerate(maps)) {
      runtime::MapSlot slot;
      slot.offset = static_cast<int64_t>(llvm::alignTo(made.parameters.size(), 64));
      slot.buffer = buffers[i];
      slot.elementBytes = 2;
      slot.swizzleBytes = 128;
      slot.sizes.assign(map.sizes.begin(), map.sizes.end());
      slot.strides.assign(map.strides.begin(), map.strides.end());
      slot.box.assign(map.box.begin(), map.box.end());
      made.parameters.resize(static_cast<size_t>(slot.offset) + mapBytes, '\0');
      made.parameterOffsets.push_back(slot.offset);
      made.mapSlots.push_back(std::move(slot));
    }
  }

  /// The arguments with addresses as good as the real ones, which are known when tensors are placed: every space starts
  /// at a multiple of the plan's alignment.
  AttentionArguments withPlaces() const {
    constexpr uintptr_t somewhere = 1 << 16;
    AttentionArguments placed = arguments;
    auto *bytes = reinterpret_cast<char *>(&placed);
    auto put = [&](size_t offset, uintptr_t address) { std::memcpy(bytes + offset, &address, sizeof address); };
    for (AttentionView *view = &placed.query; view <= &placed.valueGradient; ++view)
      if (view->rowStride == 0) // the pass does not use it
        *view = {reinterpret_cast<void *>(somewhere), 0, 0, problem.sizes.width};
    for (const Pointer &pointer : pointers)
      put(pointer.offset, somewhere + static_cast<uintptr_t>(plan.buffers[pointer.buffer].offset % plan.alignment));
    if (!placed.logSumExp)
      put(offsetof(AttentionArguments, logSumExp), somewhere);
    return placed;
  }

  /// The bytes of a buffer that are read or written: an operand's are those of its elements, however far apart they
  /// lie, and once where they are repeated.
  int64_t bytesOf(BufferId buffer) const {
    for (auto [operand, view, id] : llvm::zip_equal(call.op->getOperands(), call.views, call.operands))
      if (id == buffer) {
        int64_t bytes = byteSize(tensorType(operand));
        for (auto [size, stride] : llvm::zip_equal(view.sizes, view.strides))
          bytes /= stride == 0 ? std::max<int64_t>(size, 1) : 1;
        return bytes;
      }
    for (auto [id, bytes] : partBytes)
      if (id == buffer)
        return bytes;
    return plan.buffers[buffer].bytes;
  }

  /// "flash_attention 2x5 200x200x64 causal": batch and heads, queries, keys, width.
  std::string label(StringRef name) const {
    const AttentionSizes &sizes = problem.sizes;
    std::string text = name.str() + " " + std::to_string(sizes.batch) + "x" + std::to_string(sizes.heads) + " " +
                       std::to_string(sizes.queries) + "x" + std::to_string(sizes.keys) + "x" +
                       std::to_string(sizes.width);
    return text + (problem.mask.diagonal ? " causal" : "") + (problem.mask.window ? " window" : "") +
           (problem.bias ? " bias" : "") + (problem.rate ? " dropout" : "");
  }
};

} // namespace

bool hasAttentionKernel(Operation *op) {
  std::optional<Problem> problem = problemOf(op);
  if (!problem || !(problem->element.isBF16() || problem->element.isF16()))
    return false;
  const AttentionSizes &sizes = problem->sizes;
  auto fits = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  int64_t diagonal = problem->mask.diagonal.value_or(0);
  return llvm::is_contained({32, 64, 96, 128}, sizes.width) && fits(sizes.batch, mostBlocks) &&
         fits(sizes.heads, mostBlocks) && fits(sizes.queries, mostRows) && fits(sizes.keys, mostRows) &&
         diagonal >= -mostRows / 2 && diagonal <= mostRows / 2 && problem->mask.window.value_or(1) <= mostRows / 2 &&
         static_cast<float>(problem->scale) > 0 && isFiniteF32(problem->scale);
}

std::string attentionRemark(Operation *op, StringRef architecture) {
  std::optional<Problem> problem = problemOf(op);
  if (!problem || !problem->bias)
    return {};
  const AttentionPass pass = isa<FlashAttentionOp>(op) ? AttentionPass::Forward : AttentionPass::BackwardQuery;
  AttentionCase without = problem->caseOf(pass);
  without.bias = false;
  const auto tiles = chooseAttention(without, architecture, static_cast<int>(problem->sizes.keys));
  if (!tiles || tiles->path != AttentionPath::Hopper)
    return {};
  return "attention with a mask or bias is computed by the kernels for sm_80: those of " + architecture.str() +
         ", by wgmma, add none";
}

int64_t attentionScratchBytes(Operation *op) {
  std::optional<Problem> problem = isa<FlashAttentionOp>(op) ? std::nullopt : problemOf(op);
  if (!problem)
    return 0;
  int64_t floats = attentionWorkspace(problem->arguments(), static_cast<int>(problem->sizes.batch));
  return 2 * static_cast<int64_t>(llvm::alignTo(4 * floats, workspaceAlignment));
}

runtime::Error lowerAttention(const StructuredCall &call, StringRef architecture, runtime::Plan &plan,
                              KernelTable &kernels) {
  AttentionLowering lowering(call, architecture, plan, kernels);
  return isa<FlashAttentionOp>(call.op) ? lowering.forward() : lowering.backward();
}

} // namespace tcc::cuda
