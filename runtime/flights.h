// Collectives of a plan: the order in which ranks come to them, and flights, which run beside other instructions. A
// flight begins at its CollectiveCall and ends at the WaitCall with its number.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

inline constexpr size_t mostOpenFlights = 256;

/// What is wrong with the plan's collectives, and at which instruction; an empty text if all is well. Problems: a
/// collective that starts after one with the same or a later place in the order; a flight that is not waited for, or
/// not in the same list of instructions; a wait for no flight, or with other buffers than the flight; an instruction
/// that touches what a flight writes, or that writes what a flight reads. Nesting and buffers of the plan have been
/// checked before.
struct FlightProblem {
  size_t instruction = 0;
  std::string text;
};
FlightProblem problemOfFlights(const Plan &plan);

/// The exchanges that a rank comes to, a line each, in order: ranks of one run have the same text.
std::string exchangesOf(const Plan &plan);

} // namespace tcc::runtime
