// Collectives of a plan: the order in which ranks come to them, and flights, which run beside other instructions from
// where they start to where they are waited for.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

inline constexpr size_t mostOpenFlights = 256;

/// What is wrong with the plan's collectives, at which instruction: one that starts after one with a later place in the
/// order, or has the same; a flight that is not waited for, or not in the list of
/// instructions where it started; a wait for none, or with other buffers; an instruction that touches what a flight
/// writes, or writes what it reads. Nothing where all is well. Nesting and buffers of the plan have been checked.
struct FlightProblem {
  size_t instruction = 0;
  std::string text;
};
FlightProblem problemOfFlights(const Plan &plan);

/// The exchanges that a rank comes to, a line each, in order: ranks of one run have the same text.
std::string exchangesOf(const Plan &plan);

} // namespace tcc::runtime
