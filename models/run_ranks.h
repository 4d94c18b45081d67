// RunRanks: the processes that train one model together, as the training loop sees them. A process that is alone
// exchanges nothing.
#pragma once
#include "frontend/error.h"
#include "models/options.h"
#include "runtime/ranks/ranks.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// Facts that must be equal on all ranks, by names that messages show.
using RankFacts = std::map<std::string, std::string>;

/// An error that every rank of a run throws, in the same words.
struct CommonError : Error {
  using Error::Error;
};

/// Errors of the engine are thrown as Error. All ranks call the same functions in the same order.
class RunRanks {
public:
  /// If `ranks` is null, this process is alone.
  explicit RunRanks(std::shared_ptr<runtime::Ranks> ranks = {}) : ranks(std::move(ranks)) {}

  int64_t count() const { return ranks ? ranks->count() : 1; }
  int64_t rank() const { return ranks ? ranks->rank() : 0; }
  bool isFirst() const { return rank() == 0; } ///< only the first rank logs and writes
  const std::shared_ptr<runtime::Ranks> &handle() const { return ranks; }
  /// "4 ranks by Open MPI v4.1.4, 8 lanes"; empty for a process that is alone.
  std::string describe(int64_t lanes) const;

  /// Throws CommonError on every rank if one has another fact than the first. The error says which fact, of which rank,
  /// and both values. Long values should be digests.
  void requireEqual(const RankFacts &facts);

  /// A moment of the run that is the same on all ranks: the first rank's clock, and the first signal that any rank was
  /// sent.
  struct Moment {
    double elapsed = 0;
    int64_t signal = 0;
  };
  Moment agree(const Moment &own);

  /// Each rank's numbers, by rank.
  std::vector<std::vector<double>> gather(std::span<const double> own);
  /// Gives all ranks the first rank's bytes.
  void share(void *data, int64_t bytes);
  std::string share(const std::string &text);

private:
  std::vector<std::string> gatherText(const std::string &own);
  std::shared_ptr<runtime::Ranks> ranks;
};

/// How many ranks share this host's CPUs and memory.
int64_t ranksHere(const RunRanks &ranks);

/// `count` ranks for a plan that does not run; they exchange nothing, and this process is number `rank` of them. Null
/// if there is only one.
std::shared_ptr<runtime::Ranks> plannedRanks(int64_t count, int64_t rank = 0);
/// The options of a run that is only planned, for the first of its --ranks. Throws Error as optionsOfRank().
TrainOptions plannedOptions(const TrainOptions &options);

/// The options of this rank. If there are several ranks, the numbers of lanes and threads are set, and all ranks but
/// the first are silent and write nothing. Throws Error if the work cannot be divided among the ranks.
TrainOptions optionsOfRank(const TrainOptions &options, const RunRanks &ranks);

} // namespace tcc::models
