// RunRanks: the processes that train one model together, as the training loop sees them. Alone, nothing is exchanged.
#pragma once
#include "models/options.h"
#include "runtime/ranks/ranks.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

/// What must be equal on all ranks, by a name for people.
using RankFacts = std::map<std::string, std::string>;

/// Errors of the engine are thrown as Error. All ranks call the same functions in the same order.
class RunRanks {
public:
  /// `ranks` null: this process is alone.
  explicit RunRanks(std::shared_ptr<runtime::Ranks> ranks = {}) : ranks(std::move(ranks)) {}

  int64_t count() const { return ranks ? ranks->count() : 1; }
  int64_t rank() const { return ranks ? ranks->rank() : 0; }
  bool isFirst() const { return rank() == 0; } ///< which alone logs and writes
  const std::shared_ptr<runtime::Ranks> &handle() const { return ranks; }
  /// "4 ranks by Open MPI v4.1.4, 8 lanes"; empty alone.
  std::string describe(int64_t lanes) const;

  /// Throws Error on every rank where one has another fact than the first: which, whose, and both values. Long values
  /// should be digests.
  void requireEqual(const RankFacts &facts);

  /// What a moment of the run is on all ranks: the first one's clock, and the first signal that any of them was sent.
  struct Moment {
    double elapsed = 0;
    int64_t signal = 0;
  };
  Moment agree(const Moment &own);

  /// Each rank's numbers, by rank.
  std::vector<std::vector<double>> gather(std::span<const double> own);
  /// The first rank's bytes, to all.
  void share(void *data, int64_t bytes);
  std::string share(const std::string &text);

private:
  std::vector<std::string> gatherText(const std::string &own);
  std::shared_ptr<runtime::Ranks> ranks;
};

/// How many ranks share this host's CPUs and memory.
int64_t ranksHere(const RunRanks &ranks);

/// So many ranks, of which this process is the first, for a plan alone: they exchange nothing. Null for one.
std::shared_ptr<runtime::Ranks> plannedRanks(int64_t count);
/// The options of a run that is only planned, for the first of its --ranks. Throws Error as optionsOfRank().
TrainOptions plannedOptions(const TrainOptions &options);

/// The options of this rank: of several, lanes and threads have a number, and all but the first are silent and write
/// nothing. Throws Error where the ranks cannot share the options out.
TrainOptions optionsOfRank(const TrainOptions &options, const RunRanks &ranks);

} // namespace tcc::models
