// Exported functions of the stand-in for NCCL, after the library's documented interface.
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/nccl/communicator.h"
#include "tests/cuda_machine/stream_hook.h"

#include <cstring>
#include <map>
#include <unistd.h>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace tcc::nccl;

namespace {

struct Id {
  char bytes[128];
};

/// The options as of version 2.14, which all later ones begin with.
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

/// The group of the calling thread.
struct Group {
  int depth = 0, failed = success;
  struct Entry {
    std::shared_ptr<Communicator> communicator;
    void *stream;
    std::vector<Part> parts;
  };
  std::vector<Entry> entries;
};

Group &group() {
  thread_local Group own;
  return own;
}

/// Meetings that this process has made, until their communicator is there.
std::map<std::string, std::shared_ptr<Meeting>> &made() {
  static auto *all = new std::map<std::string, std::shared_ptr<Meeting>>;
  return *all;
}

int finishGroup() {
  std::vector<Group::Entry> entries = std::move(group().entries);
  group().entries.clear();
  int result = std::exchange(group().failed, success);
  for (Group::Entry &entry : entries) {
    if (result != success && result != inProgress)
      break;
    const auto &communicator = entry.communicator;
    const int status = communicator->begin([communicator, parts = std::move(entry.parts), stream = entry.stream] {
      return enqueue(communicator, parts, stream);
    });
    result = status == success ? result : status;
  }
  return result;
}

/// Adds a part to the group, or makes a group of it.
int add(const char *symbol, const void *handle, void *stream, Part part) {
  if (const int planned = tccMachineCall(symbol, internalError))
    return group().failed = planned;
  const auto communicator = find(handle);
  const auto refused = [&](int status, const std::string &text) {
    return group().failed = refuse(communicator.get(), status, std::string(symbol) + ": " + text);
  };
  if (!communicator || communicator->isFinalized)
    return refused(invalidArgument, "no live communicator");
  if (communicator->isBusy())
    return refused(invalidUsage, "the communicator has a call in progress");
  if (const int state = communicator->state)
    return refused(state, "the communicator has failed");
  const PartFacts &facts = part.facts;
  if (facts.peer < 0 || facts.peer >= communicator->ranks)
    return refused(invalidArgument,
                   "rank " + std::to_string(facts.peer) + " of " + std::to_string(communicator->ranks));
  const std::size_t bytes = static_cast<std::size_t>(facts.count) * bytesOf(facts.type);
  if (bytesOf(facts.type) == 0 || (facts.kind == Kind::allReduce && (facts.type != float32 || facts.op != 0)))
    return refused(invalidArgument, "a type or an op that the stand-in does not know");
  if (part.source && (facts.kind != Kind::broadcast || facts.peer == communicator->rank))
    part.sourceBytes = bytes;
  else
    part.source = nullptr;
  if (part.target)
    part.targetBytes = facts.kind == Kind::allGather ? bytes * static_cast<std::size_t>(communicator->ranks) : bytes;
  for (const auto &[address, size] :
       {std::pair<const char *, std::size_t>(part.source, part.sourceBytes), {part.target, part.targetBytes}})
    if (address && (!tccStreamHook()->isDeviceMemory || !tccStreamHook()->isDeviceMemory(address, size)))
      return refused(invalidArgument, "an address that is no live memory of the device");
  auto &entries = group().entries;
  auto entry = entries.begin();
  while (entry != entries.end() && entry->communicator != communicator)
    ++entry;
  if (entry == entries.end())
    entry = entries.insert(entry, {communicator, stream, {}});
  if (entry->stream != stream)
    return refused(invalidUsage, "a group on two streams");
  entry->parts.push_back(part);
  return group().depth > 0 ? success : finishGroup();
}

PartFacts factsOf(Kind kind, int type, std::size_t count, int peer = 0, int op = 0) {
  return {kind, type, op, peer, count, 0};
}

int finishJoining(const std::shared_ptr<Communicator> &communicator) {
  for (int rank = 0; rank < communicator->ranks; ++rank)
    if (communicator->meeting->slot(rank).process == 0)
      return inProgress;
  for (int rank = 0; rank < communicator->ranks; ++rank)
    if (rank != communicator->rank && communicator->meeting->slot(rank).device == communicator->own().device)
      return refuse(communicator.get(), invalidUsage,
                    "Duplicate GPU detected : rank " + std::to_string(communicator->rank) + " and rank " +
                        std::to_string(rank) + " both on CUDA device " + std::to_string(communicator->own().device));
  return success;
}

} // namespace

EXPORT int ncclGetVersion(int *version) {
  *version = currentSettings().version;
  return success;
}

EXPORT const char *ncclGetErrorString(int status) {
  constexpr const char *texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return status >= success && status <= inProgress ? texts[status] : "unknown result code";
}

EXPORT const char *ncclGetLastError(void *handle) {
  thread_local std::string text;
  const auto communicator = find(handle);
  text = communicator ? communicator->said : "";
  return text.c_str();
}

EXPORT int ncclGetUniqueId(Id *id) {
  if (const int planned = tccMachineCall(__func__, systemError))
    return planned;
  std::memset(id, 0, sizeof *id);
  auto meeting = Meeting::make(id->bytes);
  made()[id->bytes] = std::move(meeting);
  return success;
}

EXPORT int ncclCommInitRankConfig(void **handle, int ranks, Id id, int rank, const Config *config) {
  *handle = nullptr;
  if (const int planned = tccMachineCall(__func__, systemError))
    return planned;
  if (!config || config->size < 24 || config->magic != 0xcafebeef || config->version < 21400)
    return refuse(nullptr, invalidArgument, "ncclCommInitRankConfig: a config that is not set up");
  if (ranks < 1 || ranks > mostRanks || rank < 0 || rank >= ranks)
    return refuse(nullptr, invalidArgument,
                  "ncclCommInitRankConfig: rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  const auto meeting = Meeting::find(id.bytes);
  if (!meeting)
    return refuse(nullptr, systemError, "ncclCommInitRankConfig: nobody is at the address of this id");
  Slot &own = meeting->slot(rank);
  own.device = tccStreamHook()->device ? tccStreamHook()->device() : -1;
  if (own.device < 0)
    return refuse(nullptr, unhandledCudaError, "ncclCommInitRankConfig: no context is current");
  int nobody = 0;
  if (!own.process.compare_exchange_strong(nobody, getpid()))
    return refuse(nullptr, invalidUsage, "ncclCommInitRankConfig: rank " + std::to_string(rank) + " comes twice");
  const auto communicator = std::make_shared<Communicator>(meeting, rank, ranks, config->blocking != 0);
  if (auto kept = made().extract(id.bytes)) // others find it as long as the communicator is there
    communicator->found = std::move(kept.mapped());
  keep(communicator);
  *handle = communicator.get();
  return communicator->begin([communicator] { return finishJoining(communicator); });
}

EXPORT int ncclCommGetAsyncError(void *handle, int *status) {
  if (const int planned = tccMachineCall(__func__, internalError))
    return planned;
  const auto communicator = find(handle);
  if (!communicator)
    return refuse(nullptr, invalidArgument, "ncclCommGetAsyncError: no live communicator");
  *status = communicator->ask();
  return success;
}

EXPORT int ncclCommFinalize(void *handle) {
  if (const int planned = tccMachineCall(__func__, internalError))
    return planned;
  const auto communicator = find(handle);
  if (!communicator || communicator->isBusy() || communicator->isFinalized)
    return refuse(communicator.get(), invalidUsage,
                  "ncclCommFinalize: no live communicator without a call in progress");
  return communicator->begin([communicator] {
    communicator->isFinalized = true;
    return success;
  });
}

EXPORT int ncclCommDestroy(void *handle) {
  if (const int planned = tccMachineCall(__func__, internalError))
    return planned;
  const auto communicator = find(handle);
  if (!communicator || communicator->isBusy())
    return refuse(communicator.get(), invalidUsage, "ncclCommDestroy: no live communicator without a call in progress");
  if (communicator->begun != communicator->own().collected)
    refuse(communicator.get(), success, "ncclCommDestroy: an operation is under way");
  forget(handle);
  return success;
}

EXPORT int ncclCommAbort(void *handle) {
  if (const int planned = tccMachineCall(__func__, internalError))
    return planned;
  const auto communicator = find(handle);
  if (!communicator)
    return refuse(nullptr, invalidArgument, "ncclCommAbort: no live communicator");
  communicator->isAborted = true;
  communicator->own().failed = 1;
  forget(handle);
  return success;
}

EXPORT int ncclGroupStart() {
  if (const int planned = tccMachineCall(__func__, internalError))
    return planned;
  ++group().depth;
  return success;
}

EXPORT int ncclGroupEnd() {
  const int planned = tccMachineCall(__func__, internalError);
  if (group().depth == 0)
    return refuse(nullptr, invalidUsage, "ncclGroupEnd: no group was started");
  if (--group().depth > 0)
    return planned;
  if (planned)
    group().failed = planned;
  return finishGroup();
}

EXPORT int ncclSend(const void *source, std::size_t count, int type, int peer, void *communicator, void *stream) {
  return add(__func__, communicator, stream,
             {factsOf(Kind::send, type, count, peer), static_cast<const char *>(source)});
}

EXPORT int ncclRecv(void *target, std::size_t count, int type, int peer, void *communicator, void *stream) {
  return add(__func__, communicator, stream,
             {factsOf(Kind::receive, type, count, peer), nullptr, static_cast<char *>(target)});
}

EXPORT int ncclAllGather(const void *source, void *target, std::size_t count, int type, void *communicator,
                         void *stream) {
  return add(__func__, communicator, stream,
             {factsOf(Kind::allGather, type, count), static_cast<const char *>(source), static_cast<char *>(target)});
}

EXPORT int ncclAllReduce(const void *source, void *target, std::size_t count, int type, int op, void *communicator,
                         void *stream) {
  return add(
      __func__, communicator, stream,
      {factsOf(Kind::allReduce, type, count, 0, op), static_cast<const char *>(source), static_cast<char *>(target)});
}

EXPORT int ncclBroadcast(const void *source, void *target, std::size_t count, int type, int root, void *communicator,
                         void *stream) {
  return add(
      __func__, communicator, stream,
      {factsOf(Kind::broadcast, type, count, root), static_cast<const char *>(source), static_cast<char *>(target)});
}
