// Collectives, from the operands of all ranks.
#include "ir/reference/registry.h"
#include "ir/tensor_bytes.h"

using namespace mlir;

namespace tcc::reference {
namespace {

RefTensor empty(Operation *op, unsigned result) {
  return splatTensor(tensorType(op->getResult(result)), 0);
}

RefTensor shard(ShardOp op, const RefTensor &whole, size_t rank) {
  RefTensor part = empty(op, 0);
  const auto ranks = static_cast<int64_t>(op.getRanks()), all = whole.shape()[0];
  const int64_t row = whole.size() / all, first = static_cast<int64_t>(rank) * all / ranks;
  for (int64_t i = 0; i < part.size(); ++i)
    part.data[i] = whole.data[first * row + i];
  return part;
}

RefTensor allToAll(ArrayRef<Operation *> ops, ArrayRef<std::vector<const RefTensor *>> operands, size_t rank) {
  RefTensor result = empty(ops[rank], 0);
  const int64_t size = result.shape()[1];
  int64_t row = 0;
  for (auto [i, op] : llvm::enumerate(ops)) {
    const auto own = cast<AllToAllOp>(op).getOwn();
    const size_t each = operands[i].size() / own;
    for (size_t piece = 0; piece < own; ++piece, ++row) {
      std::vector<double> line;
      for (size_t k = 0; k < each; ++k) {
        line.resize(llvm::alignTo(line.size(), packedElements), 0);
        llvm::append_range(line, operands[i][piece * each + k]->data);
      }
      line.resize(static_cast<size_t>(size) * ops.size(), 0);
      for (int64_t k = 0; k < size; ++k)
        result.data[row * size + k] = line[rank * size + k];
    }
  }
  return result;
}

RefTensor allGather(Operation *op, ArrayRef<std::vector<const RefTensor *>> operands) {
  RefTensor result = empty(op, 0);
  result.data.clear();
  for (const std::vector<const RefTensor *> &own : operands)
    llvm::append_range(result.data, own[0]->data);
  return result;
}

RefTensor allReduce(Operation *op, ArrayRef<std::vector<const RefTensor *>> operands, unsigned number) {
  RefTensor result = empty(op, number);
  for (const std::vector<const RefTensor *> &own : operands)
    for (auto [sum, value] : llvm::zip(result.data, own[number]->data))
      sum += value;
  return result;
}

RefTensor unpacked(UnpackOp op, const RefTensor &whole, unsigned number) {
  RefTensor result = empty(op, number);
  const int64_t first = packedPlaces(op.getResultTypes())[number];
  std::copy_n(whole.data.begin() + first, result.size(), result.data.begin());
  return result;
}

/// On one rank.
template <typename Op>
void addAlone(Registry &registry) {
  add<Op>(registry, [](Call &call, Op op) {
    if (const int64_t ranks = op.rankCount(); ranks != 1)
      return call.refuse("is of " + Twine(ranks) + " ranks; their functions are interpreted together");
    Operation *ops[] = {call.op};
    const std::vector<const RefTensor *> operands[] = {{call.operands.begin(), call.operands.end()}};
    for (unsigned i = 0; i < call.op->getNumResults(); ++i)
      call.results.push_back(runCollective(ops, operands, 0, i));
  });
}

} // namespace

RefTensor runCollective(ArrayRef<Operation *> ops, ArrayRef<std::vector<const RefTensor *>> operands, size_t rank,
                        unsigned result) {
  if (auto op = dyn_cast<ShardOp>(ops[rank]))
    return shard(op, *operands[rank][0], rank);
  if (isa<AllToAllOp>(ops[rank]))
    return allToAll(ops, operands, rank);
  if (isa<AllGatherOp>(ops[rank]))
    return allGather(ops[rank], operands);
  return allReduce(cast<AllReduceOp>(ops[rank]), operands, result);
}

void addCollectives(Registry &registry) {
  addAlone<ShardOp>(registry);
  addAlone<AllToAllOp>(registry);
  addAlone<AllGatherOp>(registry);
  addAlone<AllReduceOp>(registry);
  add<UnpackOp>(registry, [](Call &call, UnpackOp op) {
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      call.results.push_back(unpacked(op, *call.operands[0], i));
  });
  add<WaitOp>(registry, [](Call &, WaitOp) {}); // here a collective is over where it stands
}

} // namespace tcc::reference
