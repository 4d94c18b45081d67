// A communicator of the stand-in, and the operations that it puts on streams.
#pragma once

#include "tests/cuda_machine/nccl/meeting.h"
#include "tests/cuda_machine/nccl/settings.h"

#include <functional>
#include <mutex>
#include <vector>

namespace tcc::nccl {

enum Status : int {
  success = 0,
  unhandledCudaError = 1,
  systemError = 2,
  internalError = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remoteError = 6,
  inProgress = 7
};

enum Type : int { int8 = 0, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 };
/// Bytes of an element; 0 of an unknown type.
std::size_t bytesOf(int type);

/// One collective, send or receive, with its memory.
struct Part {
  PartFacts facts;
  const char *source = nullptr;
  char *target = nullptr;
  std::size_t sourceBytes = 0, targetBytes = 0;
};

struct Communicator {
  Communicator(std::shared_ptr<Meeting> meeting, int rank, int ranks, bool blocking);

  const std::shared_ptr<Meeting> meeting;
  std::shared_ptr<Meeting> found; ///< the same memory, where the id says; only in the process that made the id
  const int rank, ranks;
  const bool blocking;
  const Settings settings;
  std::atomic<bool> isAborted = false, isFinalized = false;
  std::atomic<int> state = success; ///< what ncclCommGetAsyncError tells when no call is in progress
  std::uint64_t calls = 0;          ///< of groups
  std::uint64_t begun = 0;          ///< operations, by this rank's device
  std::uint64_t open = 0;           ///< operations on streams that have not ended
  std::string said;                 ///< for ncclGetLastError

  Slot &own() const { return meeting->slot(rank); }
  bool has(int fault, std::uint64_t number) const {
    return fault > 0 && static_cast<std::uint64_t>(fault) == number && (settings.rank < 0 || settings.rank == rank);
  }

  /// Starts a call: it is over at once if the communicator blocks, else after some questions about its state. What it
  /// does, it does then.
  int begin(std::function<int()> finish);
  /// ncclCommGetAsyncError.
  int ask();
  /// Whether a call is in progress, so that none but ask() and an abort may come.
  bool isBusy() const { return static_cast<bool>(pending); }

private:
  std::function<int()> pending; ///< gives inProgress where it must be called again
  int polls = 0;
  std::uint64_t begunCalls = 0;
  bool isStuck = false;
};

/// Puts the parts, which are one operation, on the stream. A status.
int enqueue(const std::shared_ptr<Communicator> &communicator, std::vector<Part> parts, void *stream);

/// The communicators of this process. Their devices go on by themselves when another rank waits for them.
void keep(const std::shared_ptr<Communicator> &communicator);
std::shared_ptr<Communicator> find(const void *handle);
void forget(const void *handle);

/// Says what the program did wrong, for tests and in ncclGetLastError; gives `status`.
int refuse(Communicator *communicator, int status, const std::string &text);

} // namespace tcc::nccl
