// How a run of several processes begins and ends. --ranks=N starts mpirun, which starts this program N times. Each of
// these processes tells the one that the user started that it is alive, so that one line can name what ended the run.
#pragma once
#include "models/options.h"

#include <memory>
#include <string>
#include <vector>

namespace tcc::runtime {
class Ranks;
}

namespace tcc::models {

/// Whether the options ask for several processes and no launcher has started them.
bool startsRanks(const TrainOptions &options);

/// Starts them on this machine with this command line, and waits for their end. Which mpirun: TCC_MPI=openmpi|mpich,
/// else the first that is there of mpirun.openmpi, mpirun.mpich. What a rank prints comes out here. If one ends too
/// early, the others are ended, and one line says which it was and in which step; so too where others wait for one for
/// longer than 10 s and five steps. The exit status is the first rank's, else 1. Throws Error where there is no mpirun.
int startRanks(const TrainOptions &options, const std::vector<std::string> &arguments);

/// The ranks that this process was started with; null where it is alone. Throws Error where they cannot be joined.
std::shared_ptr<runtime::Ranks> joinRun();
/// Says that this rank has come to its step.
void reportStep(int64_t step);
/// As long as it lives, the others may wait for this rank for any time, since it writes a file.
class BusyRank {
public:
  BusyRank();
  BusyRank(const BusyRank &) = delete;
  BusyRank &operator=(const BusyRank &) = delete;
  ~BusyRank();
};
/// The normal end, to which all ranks come with this exit status.
void leaveRun(const std::shared_ptr<runtime::Ranks> &ranks, int status);
/// What the first rank does where this one has an error: it may have the same one, and may write a page about it before
/// it says so; or every rank is known to have it (CommonError).
enum class FirstSays { maybeTheSame, afterItsPage, theSame };
/// Prints an error and ends the run, also that of other ranks. If this process is alone, it gives the exit status. An
/// error that every rank meets is printed by the first one: others wait so long for it as `first` says.
int endRun(runtime::Ranks *ranks, const std::string &message, int status, FirstSays first);

} // namespace tcc::models
