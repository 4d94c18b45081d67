#include "codegen/cpu/lower_attention.h"
#include "codegen/lower_plan.h"
#include "ir/ops/attention.h"
#include "ir/ops/dropout.h"
#include "passes/memory_places.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <bit>

using namespace mlir;

namespace tcc::cpu {
namespace {

/// Each part of a head packs its keys, so forward there are as few parts as give no thread more than this share above
/// the mean.
constexpr double unevenShare = 1.0 / 16;

/// If there are fewer key heads than this, they are cut into parts, so that threads have something to divide. The
/// number of parts follows from the sizes alone, since the order of sums follows from it.
constexpr int64_t fewKeyHeads = 8;

/// What an op's function reads when it runs.
struct Work {
  AttentionKind kind;
  AttentionSizes sizes;
  AttentionMask mask;
  double scale;
  double rate;     // of dropout; 0 where there is none
  uint64_t stream; // likewise
  bool hasBias;
  int64_t units, parts = 1;

  /// Whether units have dK and dV of their own, which are summed at last.
  bool hasSumsOfUnits() const { return kind == AttentionKind::backward && parts > 1; }
};

template <typename Op>
Work workOf(Op op, AttentionKind kind) {
  return {kind,
          attentionSizes(op),
          attentionMask(op),
          op.getScale().convertToDouble(),
          op.getRate() ? op.getRate()->convertToDouble() : 0,
          op.getStream().value_or(0),
          static_cast<bool>(op.getBias()),
          0};
}

/// Units of the forward function; their results do not depend on how many there are.
void divideForward(Work &work, int threads, const AttentionBlocks &blocks) {
  const AttentionSizes &sizes = work.sizes;
  const int64_t heads = sizes.batch * (blocks.byTiles ? sizes.heads : sizes.keyHeads),
                queryBlocks = llvm::divideCeil(sizes.queries, AttentionBlocks::queries) *
                              (blocks.byTiles || heads == 0 ? 1 : sizes.group());
  auto isEven = [&](int64_t units) {
    const auto most = static_cast<double>(llvm::divideCeil(units, threads) * threads);
    return most <= (1 + unevenShare) * static_cast<double>(units);
  };
  while (work.parts < queryBlocks && !isEven(heads * work.parts))
    ++work.parts;
  work.units = heads * work.parts;
}

Work workOf(Operation *op, int threads, const AttentionBlocks &blocks) {
  if (auto forward = dyn_cast<FlashAttentionOp>(op)) {
    Work work = workOf(forward, AttentionKind::forward);
    divideForward(work, threads, blocks);
    return work;
  }
  Work work = workOf(cast<FlashAttentionBackwardOp>(op), AttentionKind::backward);
  const AttentionSizes &sizes = work.sizes;
  work.units = sizes.batch * sizes.keyHeads;
  if (work.units > 0 && work.units < fewKeyHeads) {
    int64_t queryBlocks = sizes.group() * llvm::divideCeil(sizes.queries, AttentionBlocks::queries);
    work.parts = std::clamp<int64_t>(llvm::divideCeil(fewKeyHeads, work.units), 1, std::max<int64_t>(1, queryBlocks));
    work.units *= work.parts;
  }
  return work;
}

/// Scratch: that of each worker, then the sums of each unit where there are parts.
struct Scratch {
  int64_t workers, ofWorker, sums, bytes;
};

Scratch scratchOf(const Work &work, int threads, const AttentionBlocks &blocks) {
  bool ownSums = work.kind == AttentionKind::backward && work.parts == 1;
  int64_t ofKeys = blocks.keyBytes(work.sizes.keys) + (ownSums ? blocks.sumBytes(work.sizes.keys) : 0);
  Scratch scratch;
  scratch.workers = std::min<int64_t>(threads, work.units);
  scratch.ofWorker = llvm::alignTo(blocks.bytes + ofKeys, 64);
  scratch.sums = scratch.workers * scratch.ofWorker;
  scratch.bytes = scratch.sums + (work.hasSumsOfUnits() ? work.units * blocks.sumBytes(work.sizes.keys) : 0);
  return scratch;
}

/// The operands that are heads, log-sum-exps or a bias; a dropout's seed and `first` may follow them.
size_t operandsOf(const Work &work) {
  return (work.kind == AttentionKind::forward ? 3 : 6) + (work.hasBias ? 1 : 0);
}

/// 32-bit words of a dropout's seed (0) or `first` (1); 0 where there is none.
int64_t dropoutWords(const StructuredCall &call, const Work &work, size_t which) {
  size_t operand = operandsOf(work) + which;
  return operand < call.operands.size() ? byteSize(tensorType(call.op->getOperand(operand))) / 4 : 0;
}

std::string numbersOf(const StructuredCall &call, const Work &work, const Scratch &scratch) {
  const AttentionSizes &sizes = work.sizes;
  auto [before, last] = work.mask.bounds(sizes.queries, sizes.keys);
  int64_t group = sizes.keyHeads > 0 ? sizes.group() : 1;
  auto bitsOf = [](double number) { return static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(number))); };
  SmallVector<int64_t> numbers = {sizes.queries, sizes.keys,    sizes.heads,       sizes.keyHeads,  group,
                                  work.units,    work.parts,    scratch.sums,      scratch.workers, scratch.ofWorker,
                                  last,          last - before, bitsOf(work.scale)};
  numbers.append({static_cast<int64_t>(dropThreshold(work.rate)), bitsOf(keepScale(work.rate)),
                  static_cast<int64_t>(work.stream & 0xFFFFFFFF), dropoutWords(call, work, 0),
                  dropoutWords(call, work, 1)});
  for (const StridedView &view : ArrayRef(call.views).take_front(operandsOf(work)))
    for (size_t dim = 0; dim < 3; ++dim)
      numbers.push_back(view.strides[dim]);
  return std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(int64_t));
}

std::string labelOf(const Work &work) {
  const AttentionSizes &sizes = work.sizes;
  std::string label = work.kind == AttentionKind::backward ? "attention backward " : "attention ";
  label += std::to_string(sizes.batch) + " x " + std::to_string(sizes.heads) + " x ";
  return label + std::to_string(sizes.queries) + "x" + std::to_string(sizes.keys) + "x" + std::to_string(sizes.width);
}

/// Calls the function of a form.
runtime::Instruction callOf(AttentionForm form, int64_t extent, int64_t granularity,
                            std::vector<runtime::BufferId> args, uint32_t results, runtime::Plan &plan,
                            KernelTable &kernels) {
  std::string text = form.text(), symbol = text;
  std::replace(symbol.begin(), symbol.end(), ' ', '_');
  runtime::KernelCall call;
  call.kernel = addKernel(plan, kernels, {symbol, text}, static_cast<uint32_t>(args.size()), text);
  plan.kernels[call.kernel].results = results;
  call.segments.push_back({std::move(args), extent});
  call.granularity = granularity;
  runtime::Instruction made;
  made.call = std::move(call);
  return made;
}

} // namespace

int64_t attentionScratch(Operation *op, int threads, const AttentionBlocks &blocks) {
  return scratchOf(workOf(op, threads, blocks), threads, blocks).bytes;
}

void lowerAttention(const StructuredCall &call, const AttentionForm &form, int threads, const AttentionBlocks &blocks,
                    runtime::Plan &plan, KernelTable &kernels) {
  Work work = workOf(call.op, threads, blocks);
  Scratch scratch = scratchOf(work, threads, blocks);
  runtime::BufferId numbers = constantOf(numbersOf(call, work, scratch), plan);
  runtime::BufferId memory =
      scratch.bytes > 0 ? call.scratch : call.results.front(); // without units nothing is touched
  std::vector<runtime::BufferId> args = {numbers};
  args.insert(args.end(), call.operands.begin(), call.operands.end());
  if (form.dropout && dropoutWords(call, work, 1) == 0)
    args.push_back(call.operands.back()); // the seed again
  args.insert(args.end(), call.results.begin(), call.results.end());
  args.push_back(memory);
  auto results = static_cast<uint32_t>(call.results.size() + 1); // and the scratch
  plan.instructions.push_back(callOf(form, scratch.workers, 1, std::move(args), results, plan, kernels));
  plan.instructions.back().label = labelOf(work);
  if (form.element == ElementType::bf16 && blocks.perWord > 1)
    plan.instructions.back().arithmetic = runtime::DType::bf16;
  if (!work.hasSumsOfUnits())
    return;
  constexpr int64_t rowsAtOnce = 16;
  plan.instructions.push_back(callOf({AttentionKind::sums, form.element, form.width, false, form.bias},
                                     work.sizes.batch * work.sizes.keys * work.sizes.keyHeads, rowsAtOnce,
                                     {numbers, memory, call.results[1], call.results[2]}, 2, plan, kernels));
  plan.instructions.back().label = "attention backward sums";
}

} // namespace tcc::cpu
