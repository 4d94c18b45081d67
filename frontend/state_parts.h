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

} // namespace tcc
