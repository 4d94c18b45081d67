// A collective of a plan as one rank comes to it: which bytes it puts where, and what it then sends to whom. All
// devices do this; they differ in how they copy and in the engine that moves the bytes (Ranks).
#pragma once
#include "runtime/plan.h"
#include "runtime/ranks/ranks.h"
#include <functional>
#include <vector>

namespace tcc::runtime {

/// A copy within the rank to another place, which comes before the exchange.
struct ExchangeCopy {
  BufferId source = noBuffer; ///< noBuffer: zeros
  BufferId target = noBuffer;
  int64_t from = 0, to = 0, bytes = 0; ///< places in the two buffers
};

struct RankExchange {
  std::vector<ExchangeCopy> copies;
  std::vector<int64_t> sent, received; ///< all_to_all: bytes, by rank; a rank of several pieces sends itself none

  /// `ranks` may be null, for a process that is alone. Errors: the call is of another number of ranks, or of a rank
  /// with another share.
  static Expected<RankExchange> of(const CollectiveCall &call, const Plan &plan, const Ranks *ranks);

  /// Starts what comes after the copies, and appends it to `works`. If the process is alone, nothing does.
  Error start(const CollectiveCall &call, const Plan &plan, Ranks *ranks,
              const std::function<char *(BufferId)> &addressOf, std::vector<RankWork> &works) const;
};

} // namespace tcc::runtime
