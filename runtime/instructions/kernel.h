// The call of an emitted kernel on a CPU.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

/// One set of tensors for a kernel, and the number of its work items, [0, extent).
struct Segment {
  std::vector<BufferId> args;
  int64_t extent = 0;
  bool operator==(const Segment &) const = default;

  static void visitFields(auto &segment, auto &fields) {
    fields.buffers("args", segment.args);
    fields.integer("extent", segment.extent, 0, maxPlanBytes);
  }
};

/// Runs a kernel over all segments. Their items are divided among the threads at multiples of `granularity`; results
/// never depend on the division.
struct KernelCall {
  static constexpr KindWords words{"kernel", "kernel"};

  uint32_t kernel = 0;
  std::vector<Segment> segments;
  int64_t granularity = 1;
  bool operator==(const KernelCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.kernel("kernel", call.kernel);
    fields.integer("granularity", call.granularity, 1, maxPlanBytes);
    fields.list("segments", call.segments, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &plan, auto &&visit) {
    const size_t results = call.kernel < plan.kernels.size() ? plan.kernels[call.kernel].results : 0;
    for (uint32_t set = 0; auto &segment : call.segments) {
      for (size_t i = 0; i < segment.args.size(); ++i) {
        const bool isResult = i + results >= segment.args.size();
        visit(segment.args[i], BufferUse{.read = !isResult, .written = isResult, .set = set});
      }
      ++set;
    }
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &plan) const;
};

} // namespace tcc::runtime
