// Finds matmuls with the same B by the buffers that instructions write, which the plan lists in the order of execution.
#include "codegen/packed_operands.h"
#include "runtime/plan_uses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>

namespace tcc {
namespace {

using runtime::BufferId;
using runtime::MatmulCall;

constexpr size_t fewestMatmuls = 3;
constexpr int64_t shareOfPlan = 4; // a quarter

MatmulCall &matmulOf(runtime::Plan &plan, size_t instruction) {
  return std::get<MatmulCall>(plan.instructions[instruction].call);
}

/// Matmuls by one B that run as often as each other, in order.
struct Group {
  unsigned part; // which part of a loop or a branch they are in
  std::vector<size_t> matmuls;
};

class Groups {
public:
  Groups(runtime::Plan &plan, const std::vector<size_t> &candidates) : plan(plan), candidates(candidates) {}

  std::vector<Group> find() {
    walk(0, plan.instructions.size(), 0);
    return std::move(groups);
  }

private:
  runtime::Plan &plan;
  const std::vector<size_t> &candidates;
  size_t nextCandidate = 0;
  unsigned parts = 0; // so far
  std::vector<Group> groups;
  // Groups whose B has not been written since, by where it lies.
  std::map<std::pair<runtime::Space, uint32_t>, std::vector<size_t>> openIn;

  /// The instructions [first, end). The body of a loop of one turn belongs to the part that the loop is in.
  void walk(size_t first, size_t end, unsigned part) {
    for (size_t i = first; i < end;) {
      const runtime::Instruction &instruction = plan.instructions[i];
      if (nextCandidate < candidates.size() && candidates[nextCandidate] == i) {
        add(i, part);
        ++nextCandidate;
      }
      closeWritten(instruction);
      const auto *loop = std::get_if<runtime::LoopCall>(&instruction.call);
      const bool isOneTurn = loop && loop->count == 1;
      ++i;
      runtime::visitParts(instruction, [&](size_t count) {
        walk(i, i + count, isOneTurn ? part : ++parts);
        i += count;
      });
    }
  }

  void closeWritten(const runtime::Instruction &instruction) {
    runtime::forEachUse(plan, instruction, [&](BufferId id, const runtime::BufferUse &use) {
      if (use.written)
        close(id);
    });
  }

  void add(size_t instruction, unsigned part) {
    const MatmulCall &call = matmulOf(plan, instruction);
    const runtime::Buffer &b = plan.buffers[call.b];
    std::vector<size_t> &open = openIn[{b.space, b.index}];
    const auto known = llvm::find_if(open, [&](size_t number) {
      const MatmulCall &first = matmulOf(plan, groups[number].matmuls.front());
      return groups[number].part == part && first.b == call.b && first.desc == call.desc;
    });
    if (known != open.end()) {
      groups[*known].matmuls.push_back(instruction);
      return;
    }
    open.push_back(groups.size());
    groups.push_back({part, {instruction}});
  }

  void close(BufferId written) {
    const runtime::Buffer &buffer = plan.buffers[written];
    const auto open = openIn.find({buffer.space, buffer.index});
    if (open != openIn.end())
      llvm::erase_if(open->second, [&](size_t number) {
        return plan.lists().overlap(matmulOf(plan, groups[number].matmuls.front()).b, written);
      });
  }
};

} // namespace

void keepPackedOperands(runtime::Plan &plan, const std::vector<size_t> &candidates,
                        llvm::function_ref<int64_t(const MatmulCall &)> packedBytes) {
  int64_t left = plan.plannedBytes() / shareOfPlan;
  for (const Group &group : Groups(plan, candidates).find()) {
    if (group.matmuls.size() < fewestMatmuls)
      continue;
    const int64_t bytes = packedBytes(matmulOf(plan, group.matmuls.front()));
    if (bytes == 0 || bytes > left)
      continue;
    left -= bytes;
    const int64_t offset = static_cast<int64_t>(llvm::alignTo(plan.arenaBytes, plan.alignment));
    plan.arenaBytes = offset + bytes;
    plan.buffers.push_back({runtime::Space::arena, 0, offset, bytes});
    for (size_t matmul : group.matmuls) {
      MatmulCall &call = matmulOf(plan, matmul);
      call.packed = static_cast<BufferId>(plan.buffers.size() - 1);
      call.isPacked = matmul != group.matmuls.front();
    }
  }
}

} // namespace tcc
