// States of which each rank keeps a part (FunctionOptions::zero): parts follow one another by rank; one may be empty.
#pragma once
#include "frontend/array.h"
#include <span>
#include <vector>

namespace tcc {

namespace runtime {
class Ranks;
}

/// Makes each state this rank's part of its value; the part of states[i] has bytes[i]. All ranks must call it. A state
/// that every rank keeps whole stays as it is, and so does one that is this part already. Throws Error for a state that
/// is another part, and for one in memory of someone else, who expects the whole value there.
void keepParts(std::span<const State> states, std::span<const int64_t> bytes, runtime::Ranks &ranks);

/// The states, with whole copies in the place of those that are parts. All ranks must call it, but only the first one
/// gets copies; the others get their own states. Null ranks: this process is alone.
std::vector<State> wholeStates(std::span<const State> states, runtime::Ranks *ranks);

/// A state of which each rank keeps a part, and how many bytes that is on each.
struct StateParts {
  State state;
  std::vector<int64_t> bytes;
};

enum class WholeOn { firstRank, allRanks };

/// Makes states whole that are parts, on the first rank or on all, for functions and files that read them. All ranks
/// must call it. Before a step that keeps parts runs again, they call cutAgain() with the result. Null ranks: this
/// process is alone.
std::vector<StateParts> makeWhole(std::span<const State> states, runtime::Ranks *ranks, WholeOn where);
/// Makes each state of the list this rank's part again, of the value that it has now.
void cutAgain(std::span<const StateParts> list, runtime::Ranks *ranks);

} // namespace tcc
