// Words are found breadth-first from the results: values have numbers in the order in which they are met, the
// arguments the first ones.
#include "ir/known_kernels.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/xxhash.h"
#include <cstddef>
#include <cstring>

using namespace mlir;

namespace tcc {
namespace {

constexpr size_t mostRegions = 4096; // that are remembered at once

/// The bytes of an op's properties that say something: the sizes of segments, where it has some, come last, and padding
/// may follow them.
template <typename Op>
constexpr size_t bytesOfProperties() {
  using Properties = typename Op::Properties;
  // They say all if they are numbers and attributes, which a context has once.
  static_assert(std::is_trivially_copyable_v<Properties>);
  size_t bytes = sizeof(Properties);
  if constexpr (requires(Properties properties) { properties.operandSegmentSizes; })
    bytes = offsetof(Properties, operandSegmentSizes) + sizeof(Properties::operandSegmentSizes);
  static_assert(!requires(Properties properties) { properties.resultSegmentSizes; });
  return bytes;
}

template <typename... Ops>
llvm::DenseMap<TypeID, size_t> bytesOfAll() {
  return {{TypeID::get<Ops>(), bytesOfProperties<Ops>()}...};
}

size_t bytesOfProperties(Operation *op) {
  static const llvm::DenseMap<TypeID, size_t> bytes = bytesOfAll<
#define GET_OP_LIST
#include "ir/Ops.cpp.inc"
      >();
  return op->getPropertiesStorageSize() ? bytes.at(op->getName().getTypeID()) : 0;
}

KnownKernel analyzed(const KernelView &view, ArrayRef<Operation *> ops) {
  KnownKernel found;
  std::vector<Operation *> origins;
  found.form = analyzeKernel(view, found.refusal, &origins);
  if (found.form)
    found.refusal.clear();
  llvm::SmallDenseMap<Operation *, int, 64> numbers{{nullptr, -1}};
  for (Operation *op : ops)
    numbers.try_emplace(op, static_cast<int>(numbers.size()) - 1);
  if (found.form)
    for (Operation *op : origins)
      found.opOfNode.push_back(numbers.lookup(op));
  return found;
}

} // namespace

void RegionWords::clear() {
  count = 0;
  met.clear();
  known = 0;
  if (++region == 0) { // what the first regions have left could be taken for another one's
    std::fill(slots.begin(), slots.end(), Slot());
    region = 1;
  }
}

void RegionWords::grow(size_t words, size_t values) {
  if (found.size() < count + words)
    found.resize(2 * (count + words));
  while (slots.size() < 2 * (known + values)) {
    const std::vector<Slot> old = std::exchange(slots, std::vector<Slot>(2 * slots.size()));
    for (const Slot &slot : old)
      if (slot.region == region)
        place(Value::getFromOpaquePointer(slot.value)) = slot;
  }
}

/// The value's slot, or the free one that it can have.
RegionWords::Slot &RegionWords::place(Value value) {
  const void *key = value.getAsOpaquePointer();
  const size_t last = slots.size() - 1;
  size_t i = (reinterpret_cast<uintptr_t>(key) >> 3) * 0x9e3779b97f4a7c15u >> 32;
  for (;; ++i)
    if (Slot &slot = slots[i & last]; slot.region != region || slot.value == key)
      return slot;
}

/// Whether the value, whose slot it is, is met for the first time. Then it gets its number.
bool RegionWords::isNew(Slot &slot, Value value) {
  if (slot.region == region)
    return false;
  slot = {value.getAsOpaquePointer(), region, known++};
  return true;
}

static uint64_t wordOf(Type type) {
  return reinterpret_cast<uintptr_t>(type.getAsOpaquePointer());
}

bool RegionWords::read(const KernelView &view) {
  clear();
  const size_t arguments = view.arguments.size(), results = view.results.size();
  uint64_t *word = room(2 + 2 * arguments + results, arguments + results);
  *word++ = arguments;
  for (Value argument : view.arguments) {
    if (argument.getDefiningOp<ViewOpInterface>())
      return false;
    isNew(place(argument), argument);
    *word++ = wordOf(argument.getType());
  }
  for (Value argument : view.arguments) // one that is given twice has its first number
    *word++ = place(argument).number;
  *word++ = results;
  for (Value result : view.results)
    if (!addUse(result, *word++))
      return false;
  count = word - found.data();
  for (size_t i = 0; i < met.size(); ++i)
    if (!addOp(met[i]))
      return false;
  return true;
}

bool RegionWords::addUse(Value value, uint64_t &word) {
  if (!value)
    return false;
  Slot &slot = place(value);
  const bool isFirst = isNew(slot, value);
  word = slot.number;
  if (!isFirst)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || op->getNumRegions() != 0 || !isa_and_present<TccDialect>(op->getDialect()))
    return false;
  met.push_back(op);
  return true;
}

bool RegionWords::addOp(Operation *op) {
  const size_t bytes = bytesOfProperties(op), properties = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  MutableArrayRef<OpOperand> operands = op->getOpOperands();
  uint64_t *word = room(3 + properties + operands.size(), operands.size());
  *word++ = reinterpret_cast<uintptr_t>(op->getName().getAsOpaquePointer());
  if (properties) {
    word[properties - 1] = 0;
    std::memcpy(word, op->getPropertiesStorage().as<const void *>(), bytes);
    word += properties;
  }
  *word++ = wordOf(op->getResult(0).getType());
  *word++ = operands.size();
  for (OpOperand &operand : operands)
    if (!addUse(operand.get(), *word++))
      return false;
  count = word - found.data();
  return true;
}

size_t WordsHash::operator()(ArrayRef<uint64_t> words) const {
  return llvm::xxh3_64bits(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t)));
}

std::shared_ptr<const KnownKernel> KnownKernels::of(const KernelView &view, std::vector<Operation *> *origins,
                                                    bool checks) {
  if (!region.read(view)) {
    KnownKernel found;
    found.form = analyzeKernel(view, found.refusal, origins);
    return std::make_shared<const KnownKernel>(std::move(found));
  }
  auto place = kernels.find(region.words());
  if (place != kernels.end()) {
    ++known;
    if (checks && *place->second != analyzed(view, region.ops()))
      llvm::report_fatal_error("two regions of equal words have different kernel forms");
  } else {
    if (kernels.size() == mostRegions)
      kernels.clear();
    auto found = std::make_shared<const KnownKernel>(analyzed(view, region.ops()));
    place = kernels.emplace(region.words(), std::move(found)).first;
  }
  if (origins)
    for (int op : place->second->opOfNode)
      origins->push_back(op < 0 ? nullptr : region.ops()[op]);
  return place->second;
}

static const KernelForms &formsOf(MLIRContext *context) {
  return *context->getLoadedDialect<TccDialect>()->getRegisteredInterface<KernelForms>();
}

std::shared_ptr<const KnownKernel> KernelForms::of(MLIRContext *context, const KernelView &view, bool checks) {
  const KernelForms &forms = formsOf(context);
  std::scoped_lock lock(forms.mutex);
  return forms.kernels.of(view, nullptr, checks);
}

std::shared_ptr<const KnownKernel> KernelForms::of(KernelOp kernel, std::vector<Operation *> *origins) {
  Block &block = kernel.getBody().front();
  const SmallVector<Value> results(block.getTerminator()->getOperands()), arguments(block.getArguments());
  const KernelForms &forms = formsOf(kernel.getContext());
  std::scoped_lock lock(forms.mutex);
  return forms.kernels.of({results, arguments}, origins);
}

LogicalResult KernelForms::verify(KernelOp kernel) {
  if (kernel.getBody().empty() || kernel.getBody().front().empty())
    return mlir::verify(kernel);
  Block &block = kernel.getBody().front();
  const SmallVector<Value> results(block.back().getOperands()), arguments(block.getArguments());
  const KernelForms &forms = formsOf(kernel.getContext());
  std::scoped_lock lock(forms.mutex);
  // Words say nothing of ops that no result needs.
  const bool haveAll = forms.region.read({results, arguments}) &&
                       llvm::all_of(forms.region.ops(), [&](Operation *op) { return op->getBlock() == &block; }) &&
                       forms.region.ops().size() + 1 == block.getOperations().size();
  if (!haveAll)
    return mlir::verify(kernel);
  if (forms.valid.contains(forms.region.words()))
    return mlir::verify(kernel, /*verifyRecursively=*/false);
  if (failed(mlir::verify(kernel)))
    return failure();
  if (forms.valid.size() == mostRegions)
    forms.valid.clear();
  forms.valid.emplace(forms.region.words());
  return success();
}

} // namespace tcc
