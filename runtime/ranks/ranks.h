// Ranks: the processes of one run, as one of them sees the others. They exchange bytes by collectives, to which all
// come in the same order. The engine behind it (MPI) is opened at run time; one process alone needs none.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tcc::runtime {

/// A collective that was started; 0: none.
using RankWork = uint64_t;

/// Used by one thread at a time. Memory that a collective reads or writes belongs to it until wait() has returned.
class Ranks {
public:
  virtual ~Ranks() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t count() const = 0;
  virtual std::string engine() const = 0; ///< "Open MPI v4.1.4", for people

  /// Sends sendBytes[i] bytes to rank i, which lie one after another, and receives receiveBytes[i] from it, likewise.
  virtual Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                                      std::span<const int64_t> receiveBytes) = 0;
  /// As many bytes of each rank, one rank's after another's.
  virtual Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) = 0;
  /// Sums in place, in the engine's own order.
  virtual Expected<RankWork> allReduce(float *values, int64_t count) = 0;
  virtual Expected<RankWork> broadcast(void *data, int64_t bytes, int64_t root) = 0;
  virtual Expected<RankWork> barrier() = 0;
  virtual Error wait(RankWork work) = 0;
  /// Whether the collective is over: then it counts as waited for. Asking often lets engines without threads of their
  /// own move bytes meanwhile.
  virtual Expected<bool> isOver(RankWork work) = 0;
  /// Is called with true where wait() takes long (2 s), and with false when it is over.
  std::function<void(bool)> tellWaiting;

  /// Ends every rank of the run, at once.
  [[noreturn]] virtual void abort(int status) = 0;
  /// The normal end, to which all ranks come.
  virtual void finish() = 0;
};

/// allGather(), waited for.
Error gatherAll(Ranks &ranks, const void *send, void *receive, int64_t bytes);

/// Which rank this process was started as, by mpirun, srun or torchrun.
struct Launch {
  int64_t rank = 0, count = 1;
  std::string by; ///< "Open MPI's mpirun", "MPICH's mpirun", "srun", "torchrun"; empty: alone
};
/// From the environment: OMPI_*, PMI_*, SLURM_*, RANK and WORLD_SIZE. An error for one that contradicts itself.
Expected<Launch> findLaunch();

/// Joins the ranks that this process was started with, or gives null where it is alone: nothing is opened then. Which
/// MPI: TCC_MPI=openmpi|mpich, else that of the launcher. Errors: no engine for this MPI in this build, a library that
/// cannot be opened, an engine that sees other ranks than the environment.
Expected<std::shared_ptr<Ranks>> joinRanks();

/// A line for each engine, for tcc --doctor: what it is or why it cannot be used.
std::string describeEngines();

} // namespace tcc::runtime
