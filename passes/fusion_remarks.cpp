// What fuse-kernels tells the user: for each kernel the ops that it fuses and the memory traffic that this saves, for
// each two that stayed apart the reason and what it costs, and what matmuls keep in memory.
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Builders.h"
#include "passes/fusion.h"

using namespace mlir;

namespace tcc {

int64_t bytesOf(Value value) {
  return byteSize(tensorType(value));
}

namespace {

bool isView(Operation *op) {
  return op && op->hasTrait<ViewOp>();
}

/// The value that `value` is a view of, in a kernel's body; null for literals and coordinates, which are never stored.
Value storedValue(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  Operation *op = value.getDefiningOp();
  return isa_and_present<ConstantOp, IotaOp>(op) ? Value() : value;
}

/// Whether an op would be a kernel of its own.
bool computes(Operation &op) {
  return !isView(&op) && !isa<ConstantOp, IotaOp>(op);
}

/// The traffic of a kernel an op, less that of the one kernel.
int64_t bytesSaved(KernelOp kernel) {
  int64_t apart = 0, together = 0;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!computes(op))
      continue;
    llvm::SmallDenseSet<Value, 4> seen;
    for (Value operand : op.getOperands())
      if (Value stored = storedValue(operand); stored && seen.insert(stored).second)
        apart += bytesOf(stored);
    for (Value result : op.getResults())
      apart += bytesOf(result);
  }
  for (Value value : kernel->getOperands())
    together += bytesOf(value);
  for (Value value : kernel->getResults())
    together += bytesOf(value);
  return std::max<int64_t>(0, apart - together);
}

/// "fused 7 ops (bias, gelu, …) into h.0.mlp.gelu+bias"; nothing where there is one op.
std::string fusedText(KernelOp kernel) {
  constexpr size_t mostNamed = 3;
  Block &body = kernel.getBody().front();
  auto ops = llvm::count_if(body.without_terminator(), computes);
  SmallVector<StringRef> words;
  for (StringRef name : namesOf(body)) {
    StringRef word = name.ends_with(".grad") ? name.drop_back(5) : name; // "gelu.grad" is one word
    word = name.drop_front(scopeOf(word).size()).ltrim('.');
    if (!llvm::is_contained(words, word))
      words.push_back(word);
  }
  if (ops < 2)
    return {};
  std::string list = llvm::join(ArrayRef(words).take_front(mostNamed), ", ");
  if (words.size() > mostNamed)
    list += ", …";
  return "fused " + std::to_string(ops) + " ops (" + list + ") into " + kernel.getLabel()->str();
}

std::string titleOf(KernelOp kernel) {
  return kernel.getLabel().value_or("a kernel").str();
}

Location placeOf(Operation *op) {
  FileLineColLoc place = sourceOf(op->getLoc());
  return place ? Location(place) : op->getLoc();
}

bool reads(KernelOp consumer, KernelOp producer) {
  return llvm::any_of(consumer.getInputs(), [&](Value operand) { return operand.getDefiningOp() == producer; });
}

/// Two kernels that stayed apart, at the place of the one that reads the other's result, or of the later one.
Remark refusalRemark(KernelOp a, KernelOp b, const FusionRefusal &refusal) {
  if (reads(a, b))
    std::swap(a, b);
  std::string shared = reads(b, a) ? ", whose result it reads: " : ", which reads the same: ";
  return {Remark::Kind::missed, "fuse-kernels", placeOf(b),
          titleOf(b) + " is apart from " + titleOf(a) + shared + refusal.reason, refusal.bytes};
}

/// What lies in memory between kernels and ops that run in libraries.
void addLibraryEdges(const Fusion &fusion, Remarks &remarks) {
  auto add = [&](Operation *reader, Value value, const std::string &text) {
    remarks.push_back({Remark::Kind::missed, "fuse-kernels", placeOf(reader), text, 2 * bytesOf(value)});
  };
  for (Operation &op : fusion.block.without_terminator()) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel && !isa<StructuredOpInterface>(op))
      continue;
    llvm::SmallDenseSet<Value, 4> seen;
    for (Value operand : op.getOperands()) {
      Value stored = storedValue(operand);
      Operation *producer = stored ? stored.getDefiningOp() : nullptr;
      if (!producer || !seen.insert(stored).second)
        continue;
      if (kernel && isa<StructuredOpInterface>(producer) && !isa<KernelOp>(producer))
        add(&op, stored,
            titleOf(kernel) + " is apart from " + nameOf(producer).str() +
                ", whose result it reads: expected an op that can join a kernel, and `" +
                producer->getName().stripDialect().str() + "` runs by itself");
      else if (auto from = dyn_cast<KernelOp>(producer); from && !kernel)
        add(&op, stored,
            nameOf(&op).str() + " is apart from " + titleOf(from) +
                ", whose result it reads: expected an op that can join a kernel, and `" +
                op.getName().stripDialect().str() + "` runs by itself");
    }
  }
}

} // namespace

void addFusionRemarks(const Fusion &fusion, Remarks &remarks) {
  for (const FusionGroup &group : fusion.groups)
    if (group.alive && group.kernel)
      if (std::string text = fusedText(group.kernel); !text.empty())
        remarks.push_back(
            {Remark::Kind::passed, "fuse-kernels", placeOf(group.kernel), std::move(text), bytesSaved(group.kernel)});
  for (const auto &[pair, refusal] : fusion.refusals) {
    const FusionGroup &a = fusion.groups[pair.first], &b = fusion.groups[pair.second];
    if (a.alive && b.alive && a.kernel && b.kernel)
      remarks.push_back(refusalRemark(a.kernel, b.kernel, refusal));
  }
  addLibraryEdges(fusion, remarks);
}

} // namespace tcc
