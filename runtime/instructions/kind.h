// What a kind of instruction must have. A kind is a plain struct in a header of this folder, named in the list of
// instruction.h; each device says in device/*/program.cpp how it runs the kind.
#pragma once
#include "runtime/plan_lists.h"
#include <concepts>
#include <string>

namespace tcc::runtime {

/// Which part of a step's time a report counts it to.
enum class StepPart : uint8_t { products, attention, kernels, copies };

/// The words for a kind.
struct KindWords {
  std::string_view op;       ///< in a plan's JSON; no two kinds have the same
  std::string_view category; ///< in profiles, reports and messages
  StepPart part = StepPart::kernels;
};

/// Stands for any visitor where the question is only whether a visit function exists.
struct AnyVisitor {
  void operator()(auto &&...) const {}
};

/// What every kind has. The visits are one function for reading and for changing: `call` may be const.
///   words                             a KindWords
///   visitFields(call, fields)         each member by its name in JSON, in order (plan_json.cpp has the fields' types)
///   visitBuffers(call, plan, visit)   visit(buffer, BufferUse) for each buffer that the call names, noBuffer left out
///                                     where it may be; also of a call that has not been validated. One that waits
///                                     for what others started names what they read and write, which it ends
///   visitParts(call, visit)           visit(count) for each part of the list that a branch or a loop has after it
///   validate(plan)                    the first problem as text; it is known that its kernels and buffers exist and
///                                     that the buffers may be written where the call writes them
/// A kind whose operands tell the type that it multiplies has a function multiplied(); for the others
/// Instruction::arithmetic says the type.
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
