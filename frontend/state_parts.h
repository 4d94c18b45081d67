// States of which each rank keeps a part (FunctionOptions::zero): parts follow one another by rank; one may be empty.
#pragma once
#include "frontend/array.h"
#include <span>
#include <vector>

namespace tcc {

namespace runtime {
class Ranks;
}

/// From now on each state is this rank's part of it, of bytes[i]; all ranks call it. Nothing changes where all ranks
/// have all of a state, and where it is that part already. Throws Error for other parts than it has, and for a state in
/// memory of someone else, whose value it would no longer be.
void keepParts(std::span<const State> states, std::span<const int64_t> bytes, runtime::Ranks &ranks);

/// The states, with whole copies of those that are parts. All ranks call it; the first alone gets the copies, the
/// others what they have. Null ranks: this process is alone.
std::vector<State> wholeStates(std::span<const State> states, runtime::Ranks *ranks);

/// A state of which each rank keeps a part, and how many bytes that is on each.
struct StateParts {
  State state;
  std::vector<int64_t> bytes;
};

enum class WholeOn { firstRank, allRanks };

/// Lets the states that are parts be whole, on the first rank or on all, for functions and files that read them. All
/// ranks call it, and cutAgain() with what it gives before a step that keeps parts runs again. Null ranks: this process
/// is alone.
std::vector<StateParts> makeWhole(std::span<const State> states, runtime::Ranks *ranks, WholeOn where);
/// Each state is this rank's part again, of the value that it has now.
void cutAgain(std::span<const StateParts> list, runtime::Ranks *ranks);

} // namespace tcc
