#include "codegen/remarks.h"
#include "runtime/labels.h"
#include "runtime/machine_limits.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;

namespace tcc {
namespace {

/// The instruction's place in the user's text; it has one.
Location placeOf(const runtime::Instruction &instruction, MLIRContext &context) {
  const runtime::SourceLocation &source = instruction.sources[0];
  return FileLineColLoc::get(&context, source.file, static_cast<unsigned>(source.line),
                             static_cast<unsigned>(source.column));
}

} // namespace

void addCostRemarks(const runtime::Plan &plan, MLIRContext &context, Remarks &remarks) {
  const runtime::MachineLimits limits = runtime::machineLimits(plan.threads);
  for (const runtime::Instruction &instruction : plan.instructions) {
    if (instruction.sources.empty() || (!instruction.flops && !instruction.bytes))
      continue;
    const runtime::Bound bound = limits.boundOf(instruction);
    std::string text = llvm::formatv("{0}: {1:f2} MFLOP, {2:f2} MB, at least {3:f3} ms, bound by {4}",
                                     instruction.label, static_cast<double>(instruction.flops) * 1e-6,
                                     static_cast<double>(instruction.bytes) * 1e-6, bound.seconds * 1e3, bound.name());
    remarks.push_back(
        {Remark::Kind::analysis, "cost", placeOf(instruction, context), std::move(text), instruction.bytes});
  }
}

void addPackingRemarks(const runtime::Plan &plan, MLIRContext &context, Remarks &remarks) {
  llvm::MapVector<runtime::BufferId, SmallVector<const runtime::Instruction *>> matmuls;
  for (const runtime::Instruction &instruction : plan.instructions)
    if (const auto *call = std::get_if<runtime::MatmulCall>(&instruction.call))
      if (call->packed != runtime::noBuffer && !instruction.sources.empty())
        matmuls[call->packed].push_back(&instruction);
  for (const auto &[packed, readers] : matmuls) {
    const int64_t bytes = plan.buffers[packed].bytes, others = static_cast<int64_t>(readers.size()) - 1;
    remarks.push_back({Remark::Kind::passed, "keep-packed", placeOf(*readers.front(), context),
                       llvm::formatv("{0}: packs its right operand for {1} more matmuls, {2:f2} MB",
                                     readers.front()->label, others, static_cast<double>(bytes) * 1e-6),
                       2 * bytes * others});
  }
}

void addTuningRemarks(const TuningReport &report, const runtime::Plan &plan, MLIRContext &context, Remarks &remarks) {
  for (const TunedKernel &tuned : report.tuned)
    for (const runtime::Instruction &instruction : plan.instructions) {
      const auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
      if (!call || call->kernel != tuned.kernel || instruction.sources.empty())
        continue;
      remarks.push_back({Remark::Kind::passed, "tuning", placeOf(instruction, context),
                         instruction.label + ": " + tuned.choice +
                             (tuned.gain > 0 ? llvm::formatv(", {0:f2} times as fast", tuned.gain).str()
                                             : ", as was chosen before")});
    }
}

Remarks joined(const Remarks &remarks) {
  Remarks list;
  std::map<std::tuple<Remark::Kind, std::string, const void *, std::string>, size_t> known;
  for (const Remark &remark : remarks) {
    auto [place, inserted] = known.try_emplace(
        {remark.kind, remark.pass, remark.loc.getAsOpaquePointer(), runtime::labelPattern(remark.text)}, list.size());
    if (inserted) {
      list.push_back(remark);
      continue;
    }
    Remark &first = list[place->second];
    first.text = runtime::joinedLabel(first.text, remark.text);
    first.bytes += remark.bytes;
    first.count += remark.count;
  }
  llvm::stable_sort(list, [](const Remark &a, const Remark &b) { return a.bytes > b.bytes; });
  return list;
}

} // namespace tcc
