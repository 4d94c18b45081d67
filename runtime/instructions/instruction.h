// Instruction: one entry of a plan's list, and the list of its kinds. The functions below ask any instruction what its
// kind says of itself (kind.h). A kind that is added to the list must answer all of them, and each device must say how
// it runs the kind; else the build fails.
#pragma once
#include "runtime/instructions/collective.h"
#include "runtime/instructions/control.h"
#include "runtime/instructions/copy.h"
#include "runtime/instructions/custom.h"
#include "runtime/instructions/kernel.h"
#include "runtime/instructions/launch.h"
#include "runtime/instructions/product.h"
#include <type_traits>
#include <variant>

namespace tcc::runtime {

/// Every kind of instruction.
using AnyCall = std::variant<KernelCall, MatmulCall, CopyCall, LaunchCall, FillCall, CustomCall, BranchCall, LoopCall,
                             CollectiveCall, WaitCall>;

struct Instruction {
  AnyCall call;
  std::string label; ///< what profiles and reports show
  std::vector<SourceLocation> sources;
  int64_t flops = 0;             ///< arithmetic
  int64_t bytes = 0;             ///< least traffic: each operand read once, each result written once
  DType arithmetic = DType::f32; ///< the type that a kernel multiplies; a matmul's description has its own
  Origin origin;
  bool operator==(const Instruction &) const = default;

  /// Visits the members of the call, then those that all instructions have.
  static void visitFields(auto &instruction, auto &fields) {
    std::visit([&](auto &call) { std::remove_cvref_t<decltype(call)>::visitFields(call, fields); }, instruction.call);
    fields.text("label", instruction.label);
    Origin::visitFields(instruction.origin, fields);
    fields.integer("flops", instruction.flops, 0);
    fields.dtype("arithmetic", instruction.arithmetic);
    fields.integer("bytes", instruction.bytes, 0);
    fields.list("sources", instruction.sources, maxPlanItems);
  }
};

/// RunnersOf<Runner>::Any is a variant of Runner<Kind> for every kind. A Runner says how a device runs its kind.
template <template <typename> typename Runner, typename List = AnyCall>
struct RunnersOf;
template <template <typename> typename Runner, typename... Kinds>
struct RunnersOf<Runner, std::variant<Kinds...>> {
  using Any = std::variant<Runner<Kinds>...>;
};

/// Calls visit(std::type_identity<Kind>()) for each kind, in the list's order.
template <typename Visit>
constexpr void forEachKind(Visit &&visit) {
  [&]<typename... Kinds>(std::type_identity<std::variant<Kinds...>>) {
    static_assert((InstructionKind<Kinds> && ...), "a kind lacks what kind.h asks for");
    (visit(std::type_identity<Kinds>()), ...);
  }(std::type_identity<AnyCall>());
}

/// Calls visit(buffer, BufferUse) for each buffer that the call names, in the call's order; `visit` may change the
/// buffer where the instruction is not const. It does not visit the buffers to which a table points; plan_uses.h does.
template <typename AnInstruction, typename Visit>
void visitBuffers(AnInstruction &instruction, const PlanLists &plan, Visit &&visit) {
  std::visit([&](auto &call) { std::remove_cvref_t<decltype(call)>::visitBuffers(call, plan, visit); },
             instruction.call);
}

/// Calls visit(count) for each part of a branch or a loop, in order. The parts stand after the instruction, one after
/// another; `count` is how many instructions a part has.
template <typename AnInstruction, typename Visit>
void visitParts(AnInstruction &instruction, Visit &&visit) {
  std::visit([&](auto &call) { std::remove_cvref_t<decltype(call)>::visitParts(call, visit); }, instruction.call);
}

/// A visitor of fields that passes over all but the numbers of kernels.
template <typename Visit>
struct KernelFields {
  Visit &visit;

  void kernel(const char *, auto &number) { visit(number); }
  void buffer(auto &&...) {}
  void buffers(auto &&...) {}
  void integer(auto &&...) {}
  void integers(auto &&...) {}
  void boolean(auto &&...) {}
  void text(auto &&...) {}
  void hex(auto &&...) {}
  void dtype(auto &&...) {}
  void object(const char *, auto &&members) { members(*this); }
  void list(const char *, auto &entries, int64_t) {
    for (auto &entry : entries)
      std::remove_cvref_t<decltype(entry)>::visitFields(entry, *this);
  }
};

/// Calls visit(number) for each kernel that the call names; `visit` may change the number where the instruction is not
/// const.
template <typename AnInstruction, typename Visit>
void visitKernels(AnInstruction &instruction, Visit &&visit) {
  KernelFields<Visit> fields{visit};
  std::visit([&](auto &call) { std::remove_cvref_t<decltype(call)>::visitFields(call, fields); }, instruction.call);
}

/// How many of the next instructions belong to this one's parts; 0 for all but branches and loops.
inline size_t partsOf(const Instruction &instruction) {
  size_t count = 0;
  visitParts(instruction, [&](uint32_t part) { count += part; });
  return count;
}

/// Whether the instruction is a branch or a loop.
inline bool isControl(const Instruction &instruction) {
  bool has = false;
  visitParts(instruction, [&](uint32_t) { has = true; });
  return has;
}

inline const KindWords &wordsOf(const Instruction &instruction) {
  return std::visit([](const auto &call) -> const KindWords & { return call.words; }, instruction.call);
}

/// The part of a step's time to which the instruction counts: its kind's part, except that kernels which come from
/// attention count as attention.
inline StepPart partOf(const Instruction &instruction) {
  const StepPart part = wordsOf(instruction).part;
  const bool isAttention = instruction.origin.op.starts_with("flash_attention");
  return part == StepPart::kernels && isAttention ? StepPart::attention : part;
}

/// The type of the numbers that the instruction multiplies.
inline DType multiplied(const Instruction &instruction) {
  return std::visit(
      [&](const auto &call) {
        if constexpr (requires { call.multiplied(); })
          return call.multiplied();
        else
          return instruction.arithmetic;
      },
      instruction.call);
}

} // namespace tcc::runtime
