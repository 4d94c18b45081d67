#include "codegen/collective.h"
#include "ir/dialect.h"
#include "ir/tensor_bytes.h"
#include "passes/collective_order.h"

using namespace mlir;

namespace tcc {

int64_t collectiveScratch(Operation *op) {
  auto exchange = dyn_cast<AllToAllOp>(op);
  if (!exchange || exchange.rankCount() == 1)
    return 0;
  const int64_t part = tensorType(exchange.getResult()).getDimSize(1) * 4;
  const auto own = static_cast<int64_t>(exchange.getOwn());
  return exchange.sendsOnePiece() ? part * exchange.rankCount() : part * (exchange.rankCount() - 1) * own;
}

namespace {

/// The collective, among the plan's, that writes these results last.
const runtime::CollectiveCall &startOf(ArrayRef<runtime::BufferId> results, const runtime::Plan &plan) {
  for (const runtime::Instruction &instruction : llvm::reverse(plan.instructions))
    if (const auto *made = std::get_if<runtime::CollectiveCall>(&instruction.call))
      if (ArrayRef(made->targets) == results)
        return *made;
  llvm_unreachable("wait_c1: it waits for the results of a collective before it");
}

void lowerWait(const StructuredCall &call, runtime::Plan &plan) {
  const runtime::CollectiveCall &started = startOf(call.operands, plan);
  runtime::Instruction instruction;
  instruction.label = "wait for " + started.exchange;
  instruction.call = runtime::WaitCall{started.flight, started.sources, started.targets, started.scratch};
  plan.instructions.push_back(std::move(instruction));
}

/// A number that no flight of the plan has.
int64_t nextFlight(const runtime::Plan &plan) {
  int64_t last = 0;
  for (const runtime::Instruction &instruction : plan.instructions)
    if (const auto *made = std::get_if<runtime::CollectiveCall>(&instruction.call))
      last = std::max(last, made->flight);
  return last + 1;
}

} // namespace

static_assert(packedElements * 4 == runtime::packedAlignment); // what is exchanged is f32

void lowerCollective(const StructuredCall &call, runtime::Plan &plan) {
  if (isa<WaitOp>(call.op))
    return lowerWait(call, plan);
  runtime::CollectiveCall made;
  made.exchange = call.op->getName().stripDialect().str();
  made.order = placeInOrder(call.op).value_or(0);
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
  if (auto flying = dyn_cast<InFlightOpInterface>(call.op); flying && flying.stream())
    made.flight = nextFlight(plan);
  runtime::Instruction instruction;
  instruction.label = made.exchange;
  instruction.call = std::move(made);
  plan.instructions.push_back(std::move(instruction));
}

} // namespace tcc
