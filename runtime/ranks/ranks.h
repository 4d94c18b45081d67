// Ranks: the processes of one run, as one of them sees the others. They exchange bytes by collectives, to which all
// come in the same order. The engine that does this (MPI) is opened at run time; a process that is alone needs none.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

  /// Sends sendBytes[i] bytes to each rank i and receives receiveBytes[i] bytes from it. In both `send` and `receive`
  /// the bytes of one rank lie after those of the rank before. If a rank sends itself nothing, the bytes that it would
  /// receive from itself stay as they are.
  virtual Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                                      std::span<const int64_t> receiveBytes) = 0;
  /// Receives `bytes` bytes from every rank, those of rank 0 first.
  virtual Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) = 0;
  /// Sums in place, in the engine's own order.
  virtual Expected<RankWork> allReduce(float *values, int64_t count) = 0;
  virtual Expected<RankWork> broadcast(void *data, int64_t bytes, int64_t root) = 0;
  virtual Expected<RankWork> barrier() = 0;
  virtual Error wait(RankWork work) = 0;
  /// Whether the collective is over; if so, it counts as waited for. An engine without threads of its own moves bytes
  /// while it is asked.
  virtual Expected<bool> isOver(RankWork work) = 0;
  /// Called with true when a wait() has taken long (2 s), and with false when that wait is over.
  std::function<void(bool)> tellWaiting;

  /// Ends every rank of the run, at once.
  [[noreturn]] virtual void abort(int status) = 0;
  /// The normal end, to which all ranks come.
  virtual void finish() = 0;
};

/// Calls allGather() and waits for it.
Error gatherAll(Ranks &ranks, const void *send, void *receive, int64_t bytes);
/// Gives the texts of all ranks, by rank.
Expected<std::vector<std::string>> gatherTexts(Ranks &ranks, const std::string &own);
/// Sends texts[i] to each rank i, and gives what each rank has sent to this one, by rank.
Expected<std::vector<std::string>> exchangeTexts(Ranks &ranks, std::span<const std::string> texts);

/// Which rank this process was started as, by mpirun, srun or torchrun.
struct Launch {
  int64_t rank = 0, count = 1;
  std::string by; ///< "Open MPI's mpirun", "MPICH's mpirun", "srun", "torchrun"; empty: alone
};
/// Reads the environment: OMPI_*, PMI_*, SLURM_*, RANK and WORLD_SIZE. Errors: variables that contradict each other.
Expected<Launch> findLaunch();

/// Joins the ranks with which this process was started. If the process is alone, it gives null and opens nothing. The
/// MPI is that of TCC_MPI=openmpi|mpich, else that of the launcher. Errors: this build has no engine for the MPI, a
/// library cannot be opened, the engine sees other ranks than the environment names.
Expected<std::shared_ptr<Ranks>> joinRanks();

/// One line for each engine, for tcc --doctor, that says what the engine is or why it cannot be used.
std::string describeEngines();

} // namespace tcc::runtime
