// Words are found breadth-first from the results: values have numbers in the order in which they are met, the
// arguments the first ones.
#include "ir/known_kernels.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/xxhash.h"
#include <cstddef>
#include <cstring>

using namespace mlir;

namespace tcc {
namespace {

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

/// Numbers of values in the order in which they are met. The fuser asks for the words of several ten thousand regions,
/// so the table is there once a thread, and what is in it counts for one region.
class ValueNumbers {
public:
  void clear() {
    known = 0;
    ++region;
  }

  /// The number of `value`, and whether it is a new one.
  std::pair<unsigned, bool> add(Value value) {
    if (2 * (known + 1) > slots.size())
      grow();
    Slot &slot = place(value);
    const bool isNew = slot.region != region;
    if (isNew)
      slot = {value.getAsOpaquePointer(), region, known++};
    return {slot.number, isNew};
  }

private:
  struct Slot {
    void *value = nullptr;
    uint64_t region = 0;
    unsigned number = 0;
  };
  std::vector<Slot> slots = std::vector<Slot>(512); // a power of two
  uint64_t region = 1;
  unsigned known = 0;

  /// The value's slot, or the free one that it can have.
  Slot &place(Value value) {
    const void *key = value.getAsOpaquePointer();
    size_t i = (reinterpret_cast<uintptr_t>(key) >> 3) * 0x9e3779b97f4a7c15u >> 32;
    for (;; ++i)
      if (Slot &slot = slots[i & (slots.size() - 1)]; slot.region != region || slot.value == key)
        return slot;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots, std::vector<Slot>(2 * slots.size()));
    for (const Slot &slot : old)
      if (slot.region == region)
        place(Value::getFromOpaquePointer(slot.value)) = slot;
  }
};

class WordsOfRegion {
public:
  WordsOfRegion() {
    numbers.clear();
    words.reserve(512);
    ops.reserve(64);
  }

  bool run(const KernelView &view) {
    words.push_back(view.arguments.size());
    for (Value argument : view.arguments) {
      if (argument.getDefiningOp<ViewOpInterface>())
        return false;
      numbers.add(argument);
      add(argument.getType());
    }
    for (auto [i, argument] : llvm::enumerate(view.arguments)) // one that is given twice has its first number
      words.push_back(numbers.add(argument).first);
    words.push_back(view.results.size());
    for (Value result : view.results)
      if (!addUse(result))
        return false;
    for (size_t i = 0; i < ops.size(); ++i)
      if (!addOp(ops[i]))
        return false;
    return true;
  }

  std::vector<uint64_t> words;
  SmallVector<Operation *> ops;

private:
  static thread_local ValueNumbers tableOfThread;
  ValueNumbers &numbers = tableOfThread;

  void add(Type type) { words.push_back(reinterpret_cast<uintptr_t>(type.getAsOpaquePointer())); }

  bool addUse(Value value) {
    const auto [number, isNew] = numbers.add(value);
    words.push_back(number);
    if (!isNew)
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumResults() != 1 || op->getNumRegions() != 0 || !isa_and_present<TccDialect>(op->getDialect()))
      return false;
    ops.push_back(op);
    return true;
  }

  bool addOp(Operation *op) {
    words.push_back(reinterpret_cast<uintptr_t>(op->getName().getAsOpaquePointer()));
    if (const size_t bytes = bytesOfProperties(op)) {
      const size_t first = words.size();
      words.resize(first + (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
      std::memcpy(&words[first], op->getPropertiesStorage().as<const void *>(), bytes);
    }
    add(op->getResult(0).getType());
    words.push_back(op->getNumOperands());
    return llvm::all_of(op->getOperands(), [&](Value operand) { return addUse(operand); });
  }
};

thread_local ValueNumbers WordsOfRegion::tableOfThread;

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

std::optional<RegionWords> RegionWords::of(const KernelView &view) {
  WordsOfRegion region;
  if (!region.run(view))
    return std::nullopt;
  return RegionWords{std::move(region.words), std::move(region.ops)};
}

size_t KnownKernels::Hash::operator()(const std::vector<uint64_t> &words) const {
  return llvm::xxh3_64bits(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t)));
}

std::shared_ptr<const KnownKernel> KnownKernels::of(const KernelView &view) {
  return of(view, RegionWords::of(view));
}

std::shared_ptr<const KnownKernel> KnownKernels::of(const KernelView &view, const std::optional<RegionWords> &region) {
  if (!region) {
    KnownKernel found;
    found.form = analyzeKernel(view, found.refusal);
    return std::make_shared<const KnownKernel>(std::move(found));
  }
  if (auto place = kernels.find(region->words); place != kernels.end()) {
    ++known;
    if (checks && *place->second != analyzed(view, region->ops))
      llvm::report_fatal_error("two regions of equal words have different kernel forms");
    return place->second;
  }
  if (kernels.size() == most)
    kernels.clear();
  auto found = std::make_shared<const KnownKernel>(analyzed(view, region->ops));
  kernels.emplace(region->words, found);
  return found;
}

std::shared_ptr<const KnownKernel> KernelForms::of(KernelOp kernel, std::vector<Operation *> *origins) {
  const auto *forms = kernel.getContext()->getLoadedDialect<TccDialect>()->getRegisteredInterface<KernelForms>();
  Block &block = kernel.getBody().front();
  SmallVector<Value> results(block.getTerminator()->getOperands()), arguments(block.getArguments());
  const KernelView view{results, arguments};
  const std::optional<RegionWords> region = RegionWords::of(view);
  if (!region) {
    KnownKernel found;
    found.form = analyzeKernel(view, found.refusal, origins);
    return std::make_shared<const KnownKernel>(std::move(found));
  }
  std::scoped_lock lock(forms->mutex);
  std::shared_ptr<const KnownKernel> known = forms->kernels.of(view, region);
  if (origins)
    for (int op : known->opOfNode)
      origins->push_back(op < 0 ? nullptr : region->ops[op]);
  return known;
}

} // namespace tcc
