// What a kind of instruction must have. A kind is a plain struct in a header of this folder, named in the list of
// instruction.h; each device says in device/*/program.cpp how it runs the kind.
#pragma once
#include "runtime/plan_lists.h"
#include <concepts>
#include <string>

namespace tcc::runtime {

/// The part of a step's time to which a report counts an instruction.
enum class StepPart : uint8_t { products, attention, kernels, copies };

/// The words for a kind.
struct KindWords {
  std::string_view op;       ///< in a plan's JSON; no two kinds have the same
  std::string_view category; ///< in profiles, reports and messages
  StepPart part = StepPart::kernels;
};

/// Stands for any visitor when the question is only whether a visit function exists.
struct AnyVisitor {
  void operator()(auto &&...) const {}
};

/// What every kind has. The visits are one function for reading and for changing: `call` may be const.
///   words                             a KindWords
///   visitFields(call, fields)         each member by its name in JSON, in order (plan_json.cpp has the fields' types)
///   visitBuffers(call, plan, visit)   visit(buffer, BufferUse) for each buffer that the call names. An optional buffer
///                                     that is noBuffer is left out. The call need not be valid. A call that waits for
///                                     another one visits the buffers that the other one uses until then
///   visitParts(call, visit)           visit(count) for each part of the list that a branch or a loop has after it
///   validate(plan)                    the first problem as text. The caller has checked that the kernels and buffers
///                                     exist, and that the buffers which the call writes may be written
/// If the operands of a kind tell the type that it multiplies, the kind has a function multiplied(). For the others
/// Instruction::arithmetic has the type.
template <typename Call>
concept InstructionKind = std::default_initializable<Call> && std::equality_comparable<Call> &&
                          requires(const Call &known, Call &call, const PlanLists &plan, AnyVisitor visit) {
                            { Call::words } -> std::convertible_to<KindWords>;
                            Call::visitBuffers(call, plan, visit);
                            Call::visitBuffers(known, plan, visit);
                            Call::visitParts(call, visit);
                            Call::visitParts(known, visit);
                            { known.validate(plan) } -> std::same_as<std::string>;
                          };

} // namespace tcc::runtime
