#include "codegen/collective.h"
#include "ir/dialect.h"

using namespace mlir;

namespace tcc {

int64_t collectiveScratch(Operation *op) {
  auto exchange = dyn_cast<AllToAllOp>(op);
  if (!exchange || exchange.rankCount() == 1)
    return 0;
  const int64_t part = tensorType(exchange.getResult()).getDimSize(1) * 4;
  return part * exchange.rankCount() * static_cast<int64_t>(exchange.getOwn());
}

void lowerCollective(const StructuredCall &call, runtime::Plan &plan) {
  runtime::CollectiveCall made;
  made.exchange = call.op->getName().stripDialect().str();
  made.ranks = cast<CollectiveOpInterface>(call.op).rankCount();
  if (auto shard = dyn_cast<ShardOp>(call.op))
    made.rows = tensorType(shard.getX()).getDimSize(0);
  if (auto exchange = dyn_cast<AllToAllOp>(call.op)) {
    made.pieces = exchange.getPieces().vec();
    made.own = static_cast<int64_t>(exchange.getOwn());
  }
  made.sources.assign(call.operands.begin(), call.operands.end());
  made.targets.assign(call.results.begin(), call.results.end());
  made.scratch = call.scratch;
  runtime::Instruction instruction;
  instruction.label = made.exchange;
  instruction.call = std::move(made);
  plan.instructions.push_back(std::move(instruction));
}

} // namespace tcc
