// What a kind of instruction brings. A kind is a plain struct in a header of this folder, named in the list of
// instruction.h; how it runs is said by each device, in device/*/program.cpp.
#pragma once
#include "runtime/plan_lists.h"
#include <concepts>
#include <string>

namespace tcc::runtime {

/// Which part of a step's time a report counts it to.
enum class StepPart : uint8_t { products, attention, kernels, copies };

/// A kind's words.
struct KindWords {
  std::string_view op;       ///< in a plan's JSON; no two kinds have the same
  std::string_view category; ///< in profiles, reports and messages
  StepPart part = StepPart::kernels;
};

/// Stands for any visitor where it is only asked whether there is a function to visit with.
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
///   validate(plan)                    the first problem as text; that buffers exist and may be written is known
/// A kind whose operands have the type that it multiplies says so by multiplied(); of the others it is the
/// instruction's.
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
