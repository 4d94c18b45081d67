#include "codegen/cuda/kernel/launch.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {
namespace {

constexpr int64_t longestWarpRow = 512; // columns; longer rows take a block

int64_t partsOf(int64_t whole, int64_t part) {
  return (whole + part - 1) / part;
}

bool hasRowStores(const KernelInfo &form) {
  return llvm::any_of(form.stores, [](const KernelStore &store) { return !store.perColumn; });
}

bool hasColumnStores(const KernelInfo &form) {
  return llvm::any_of(form.stores, [](const KernelStore &store) { return store.perColumn; });
}

// A value of one element a row that is written over an operand of the same kind must be written when nobody of the row
// reads that any more, so rows with both kinds of results are kept together.
KernelShape shapeOf(const KernelInfo &form) {
  bool mixed = hasRowStores(form) && hasColumnStores(form);
  if (form.hasColumnResult())
    return form.hasRowReduction() || mixed ? KernelShape::blockColumns : KernelShape::columns;
  if (form.hasRowReduction() || mixed)
    return form.space.columns <= longestWarpRow ? KernelShape::warpRows : KernelShape::blockRows;
  return form.isSegment() ? KernelShape::segments : KernelShape::elements;
}

int threadsOfRow(int64_t columns) {
  if (columns <= 4096)
    return 256;
  return columns <= 16384 ? 512 : 1024;
}

} // namespace

KernelDivision divide(const KernelInfo &form) {
  const KernelSpace &space = form.space;
  KernelDivision made;
  made.shape = shapeOf(form);
  switch (made.shape) {
  case KernelShape::elements:
    made.items = space.outer * space.rows * (hasColumnStores(form) ? space.columns : 1);
    made.blocks = partsOf(made.items, made.threads);
    break;
  case KernelShape::segments:
    made.items = space.columns;
    made.blocks = partsOf(made.items, segmentBlock);
    break;
  case KernelShape::warpRows:
    made.threads = 128;
    made.items = space.outer * space.rows;
    made.blocks = partsOf(made.items, made.threads / 32);
    made.perThread = partsOf(space.columns, 32);
    break;
  case KernelShape::blockRows:
    made.threads = threadsOfRow(space.columns);
    made.items = made.blocks = space.outer * space.rows;
    made.perThread = partsOf(space.columns, made.threads);
    break;
  case KernelShape::columns:
    made.threads = 128;
    made.items = space.outer * space.columns;
    made.blocks = partsOf(made.items, made.threads);
    break;
  case KernelShape::blockColumns:
    made.threads = threadsOfRow(space.columns);
    made.items = made.blocks = space.columns == 0 ? 0 : space.outer;
    made.perThread = partsOf(space.columns, made.threads);
    break;
  }
  return made;
}

int64_t tableEntryBytes(const KernelInfo &form) {
  size_t more = shapeOf(form) == KernelShape::segments ? 2 : 0;
  return 8 * static_cast<int64_t>(form.arguments.size() + form.results.size() + more);
}

std::string functionName(const std::string &symbol, KernelCalling calling) {
  return calling == KernelCalling::joined ? symbol + "_joined" : symbol;
}

std::string refusal(const KernelInfo &form) {
  constexpr int64_t most = int64_t(1) << 31;
  const KernelSpace &space = form.space;
  if (space.outer >= most || space.rows >= most || space.columns >= most)
    return "expected each size of the iteration space to be below 2^31";
  auto isEightBit = [](ElementType type) { return type == ElementType::f8E4M3FN || type == ElementType::f8E5M2; };
  bool narrow = llvm::any_of(form.nodes, [&](const KernelNode &node) { return isEightBit(node.type); });
  for (const std::vector<KernelTensor> *list : {&form.arguments, &form.results})
    narrow |= llvm::any_of(*list, [&](const KernelTensor &tensor) { return isEightBit(tensor.type); });
  if (narrow)
    return "expected no 8-bit floats";
  for (const KernelStore &store : form.stores)
    if (store.kind == KernelStore::Kind::scatterAdd && space.outer != 1)
      return "expected a scatter-add to have one outer block";
  return {};
}

} // namespace tcc::cuda
