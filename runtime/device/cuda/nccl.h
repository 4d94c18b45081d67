// NCCL opened at run time: the functions by which GPUs of several processes exchange memory, declared here so that no
// header of it is needed. Names, layouts and enumerator values are those of the library's documented C interface.
#pragma once

#include "runtime/device/cuda/driver.h"

#include <climits>

namespace tcc::runtime::cuda {

using NcclComm = struct NcclCommOpaque *;

/// Statuses that the runtime tells apart; any other is an error.
enum NcclStatus : int { ncclSuccess = 0, ncclRemoteError = 6, ncclInProgress = 7 };
enum NcclType : int { ncclUint8 = 1, ncclFloat32 = 7 };
constexpr int ncclSum = 0;

/// An id by which the ranks of a communicator find each other. The first rank makes it and sends it to all.
struct NcclId {
  char bytes[128];
};

/// The communicator's options as of NCCL 2.14. Later versions have more, which keep their defaults.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0; ///< only a communicator whose calls do not block can be aborted safely
  int unused = INT_MIN;
};
static_assert(sizeof(NcclConfig) == 24);

/// One line a function: member, exported symbol, parameter types. All return a status, 0 on success.
#define TCC_NCCL_FUNCTIONS(X)                                                                                          \
  X(getVersion, ncclGetVersion, (int *))                                                                               \
  X(getUniqueId, ncclGetUniqueId, (NcclId *))                                                                          \
  X(initRank, ncclCommInitRankConfig, (NcclComm *, int ranks, NcclId, int rank, NcclConfig *))                         \
  X(asyncError, ncclCommGetAsyncError, (NcclComm, int *status))                                                        \
  X(finalize, ncclCommFinalize, (NcclComm))                                                                            \
  X(destroy, ncclCommDestroy, (NcclComm))                                                                              \
  X(abort, ncclCommAbort, (NcclComm))                                                                                  \
  X(groupStart, ncclGroupStart, ())                                                                                    \
  X(groupEnd, ncclGroupEnd, ())                                                                                        \
  X(send, ncclSend, (const void *, std::size_t count, int type, int peer, NcclComm, StreamHandle))                     \
  X(receive, ncclRecv, (void *, std::size_t count, int type, int peer, NcclComm, StreamHandle))                        \
  X(allGather, ncclAllGather, (const void *, void *, std::size_t count, int type, NcclComm, StreamHandle))             \
  X(allReduce, ncclAllReduce, (const void *, void *, std::size_t count, int type, int op, NcclComm, StreamHandle))     \
  X(broadcast, ncclBroadcast, (const void *, void *, std::size_t count, int type, int root, NcclComm, StreamHandle))

class Nccl {
public:
  /// Opens NCCL 2.18 or later. It looks at TCC_NCCL if that is set, else in toolkitFolders() and then on the loader's
  /// path. Needs no device. Throws CudaError with the reasons and an install line.
  static Nccl open();

  /// The library's version as one number: 10000·major + 100·minor + patch.
  int version() const { return versionNumber; }
  const std::string &path() const { return library.path(); }
  /// What a status means, with what the library last said of the communicator, which may be null.
  std::string explain(int status, NcclComm comm) const;

  Library library;
#define TCC_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  TCC_NCCL_FUNCTIONS(TCC_DECLARE)
#undef TCC_DECLARE

private:
  int versionNumber = 0;
  const char *(*errorString)(int) = nullptr;
  const char *(*lastError)(NcclComm) = nullptr;
};

/// "2.27.3" of 22703.
std::string ncclVersionText(int version);

} // namespace tcc::runtime::cuda
