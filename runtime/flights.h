// Flights: collectives of a plan that run beside other instructions. A flight begins at its CollectiveCall and ends at
// the WaitCall with its number.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime {

inline constexpr size_t mostOpenFlights = 256;

/// What is wrong with the plan's flights, and at which instruction; an empty text if all is well. Problems: a flight
/// that is not waited for, or not in the same list of instructions; a wait for no flight, or with other buffers than
/// the flight; an instruction that touches what a flight writes, or that writes what a flight reads. Nesting and
/// buffers of the plan have been checked before.
struct FlightProblem {
  size_t instruction = 0;
  std::string text;
};
FlightProblem problemOfFlights(const Plan &plan);

} // namespace tcc::runtime
