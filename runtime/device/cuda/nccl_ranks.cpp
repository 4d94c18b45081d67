#include "runtime/device/cuda/nccl_ranks.h"
#include "runtime/device/cuda/nccl.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace tcc::runtime::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// How long a call may be in progress.
std::chrono::seconds limitOfCalls() {
  constexpr int usual = 120;
  const char *text = std::getenv("TCC_NCCL_LIMIT");
  int seconds = 0;
  if (text)
    std::from_chars(text, text + std::strlen(text), seconds);
  return std::chrono::seconds(seconds > 0 ? seconds : usual);
}

class NcclRanks final : public Ranks {
public:
  NcclRanks(Session &session, Nccl opened, std::shared_ptr<Ranks> host)
      : session(session), nccl(std::move(opened)), host(std::move(host)), limit(limitOfCalls()),
        stream(session.device->makeStream()), reached(session.device->makeEvent(false)) {}

  /// Throws CudaError.
  void join(const NcclId &id) {
    NcclConfig config;
    const std::lock_guard guard(calls);
    settle(nccl.initRank(&comm, static_cast<int>(count()), id, static_cast<int>(rank()), &config), "joining the ranks");
    watcher = std::thread([this] { watch(); });
  }

  ~NcclRanks() override { leave(); }

  int64_t rank() const override { return host->rank(); }
  int64_t count() const override { return host->count(); }
  std::string engine() const override { return "NCCL " + ncclVersionText(nccl.version()); }

  Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                              std::span<const int64_t> receiveBytes) override {
    return start("all_to_all", [&] {
      const auto *from = static_cast<const char *>(send);
      auto *to = static_cast<char *>(receive);
      for (size_t peer = 0; peer < sendBytes.size(); ++peer) {
        const auto sent = static_cast<size_t>(sendBytes[peer]), received = static_cast<size_t>(receiveBytes[peer]);
        if (sent > 0)
          take(nccl.send(from, sent, ncclUint8, static_cast<int>(peer), comm, stream.handle()));
        if (received > 0 && (sent > 0 || static_cast<int64_t>(peer) != rank()))
          take(nccl.receive(to, received, ncclUint8, static_cast<int>(peer), comm, stream.handle()));
        from += sent;
        to += received;
      }
    });
  }
  Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) override {
    return start("all_gather", [&] {
      take(nccl.allGather(send, receive, static_cast<size_t>(bytes), ncclUint8, comm, stream.handle()));
    });
  }
  Expected<RankWork> allReduce(float *values, int64_t number) override {
    return start("all_reduce", [&] {
      take(nccl.allReduce(values, values, static_cast<size_t>(number), ncclFloat32, ncclSum, comm, stream.handle()));
    });
  }
  Expected<RankWork> broadcast(void *data, int64_t bytes, int64_t root) override {
    return start("broadcast", [&] {
      take(nccl.broadcast(data, data, static_cast<size_t>(bytes), ncclUint8, static_cast<int>(root), comm,
                          stream.handle()));
    });
  }
  /// A byte from each rank, which nobody reads.
  Expected<RankWork> barrier() override {
    Error error = session.attempt([&] {
      if (token.size() == 0)
        token = session.device->allocate(1 + static_cast<size_t>(count()));
    });
    if (error)
      return error;
    auto *byte = reinterpret_cast<char *>(token.address());
    return allGather(byte, byte + 1, 1);
  }

  Error wait(RankWork work) override {
    return session.attempt([&] {
      session.stream.waitFor(flights.at(work));
      ended.push_back(std::move(flights.extract(work).mapped()));
    });
  }
  Expected<bool> isOver(RankWork work) override {
    bool isOver = false;
    Error error = session.attempt([&] {
      isOver = flights.at(work).isReached();
      if (isOver)
        ended.push_back(std::move(flights.extract(work).mapped()));
    });
    if (error)
      return error;
    return isOver;
  }

  [[noreturn]] void abort(int status) override {
    if (const std::unique_lock guard(calls, std::try_to_lock); guard && comm)
      nccl.abort(comm);
    host->abort(status);
    std::_Exit(status);
  }
  void finish() override { leave(); }

private:
  Session &session;
  Nccl nccl;
  std::shared_ptr<Ranks> host;
  const std::chrono::seconds limit;
  Stream stream; ///< of all collectives, one after another
  Event reached; ///< where the session's stream is when a collective starts
  Buffer token;
  std::mutex calls; ///< of NCCL for this communicator, which takes one at a time
  NcclComm comm = nullptr;
  RankWork last = 0;
  std::map<RankWork, Event> flights;
  std::vector<Event> ended; ///< to be used again
  std::thread watcher;
  std::mutex stopping;
  std::condition_variable stop;
  bool isStopping = false;

  static void take(int status) {
    if (status != ncclSuccess && status != ncclInProgress)
      throw status;
  }

  /// Waits until a call is no longer in progress; `calls` is held. Nothing may be put on the stream before that, since
  /// the library may put the call's own work there until then. Throws CudaError.
  void settle(int status, const std::string &what) {
    Clock::duration waited{};
    Clock::time_point before = Clock::now();
    for (int polls = 0; status == ncclInProgress; ++polls) {
      const Clock::time_point now = Clock::now();
      waited += std::min<Clock::duration>(now - before, std::chrono::milliseconds(100)); // this process may be stopped
      before = now;
      if (waited > limit) {
        giveUp();
        throw CudaError(what + " of rank " + std::to_string(rank()) + " has been in progress for " +
                        std::to_string(limit.count()) + " s, which is the limit (TCC_NCCL_LIMIT)");
      }
      if (polls > 100)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      const int asked = comm ? nccl.asyncError(comm, &status) : ncclSuccess;
      if (asked != ncclSuccess)
        status = asked;
    }
    if (status == ncclSuccess)
      return;
    const std::string text = what + " of rank " + std::to_string(rank()) + " failed: " + nccl.explain(status, comm);
    giveUp();
    throw CudaError(text);
  }

  /// Ends what is under way on the device; no call is possible from then on.
  void giveUp() {
    if (comm)
      nccl.abort(comm);
    comm = nullptr;
  }

  template <typename Calls>
  Expected<RankWork> start(const std::string &what, Calls &&callEach) {
    RankWork work = 0;
    Error error = session.attempt([&] {
      const std::lock_guard guard(calls);
      if (!comm)
        throw CudaError(what + " of rank " + std::to_string(rank()) + ": the ranks' GPUs have parted");
      session.stream.record(reached);
      stream.waitFor(reached);
      int status = nccl.groupStart();
      if (status == ncclSuccess) {
        try {
          callEach();
        } catch (int failed) {
          status = failed;
        }
        const int ending = nccl.groupEnd(); // also after a failure, since the group is the thread's
        status = status == ncclSuccess ? ending : status;
      }
      settle(status, what);
      Event over = ended.empty() ? session.device->makeEvent(false) : std::move(ended.back());
      if (!ended.empty())
        ended.pop_back();
      stream.record(over);
      flights.emplace(work = ++last, std::move(over));
    });
    if (error)
      return error;
    return work;
  }

  /// Asks for errors that no call has told. What it does when all is well is no call of CUDA.
  void watch() {
    std::unique_lock guard(stopping);
    while (!stop.wait_for(guard, std::chrono::milliseconds(100), [&] { return isStopping; })) {
      const std::unique_lock own(calls, std::try_to_lock);
      int status = ncclSuccess;
      if (!own || !comm)
        continue; // a call that is under way asks itself
      const int asked = nccl.asyncError(comm, &status);
      status = asked == ncclSuccess ? status : asked;
      if (status == ncclSuccess || status == ncclInProgress)
        continue;
      // Another rank has failed: it says why, and its end is the end of this one, unless that takes long.
      if (status == ncclRemoteError && stop.wait_for(guard, std::chrono::seconds(2), [&] { return isStopping; }))
        break;
      session.close("an exchange of rank " + std::to_string(rank()) +
                    " with the other ranks failed: " + nccl.explain(status, comm));
      giveUp();
    }
  }

  void leave() {
    if (watcher.joinable()) {
      {
        const std::lock_guard guard(stopping);
        isStopping = true;
      }
      stop.notify_all();
      watcher.join();
    }
    const std::lock_guard guard(calls);
    if (!comm)
      return;
    try {
      session.device->makeCurrent();
      if (session.closed()) // what is under way may never end
        return giveUp();
      stream.synchronize();
      settle(nccl.finalize(comm), "parting");
      nccl.destroy(std::exchange(comm, nullptr));
    } catch (const CudaError &) { // whoever has work to lose has met the error before
      giveUp();
    }
  }
};

/// Which NCCL each rank has, so that none waits for a rank that has none. Throws CudaError on all ranks or on none.
Nccl openOnAll(Ranks &host) {
  struct Said {
    int32_t version = 0;
    char problem[508] = {};
  } own;
  std::optional<Nccl> opened;
  std::string reason;
  try {
    opened = Nccl::open();
    own.version = opened->version();
  } catch (const CudaError &error) {
    reason = error.what();
    reason.copy(own.problem, sizeof own.problem - 1);
  }
  std::vector<Said> all(static_cast<size_t>(host.count()));
  if (Error error = gatherAll(host, &own, all.data(), sizeof own))
    throw CudaError(error.message());
  if (!opened)
    throw CudaError(reason);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].version != all[0].version || all[i].version == 0)
      throw CudaError(all[i].version == 0
                          ? "rank " + std::to_string(i) + " has no NCCL: " + all[i].problem
                          : "rank " + std::to_string(i) + " has NCCL " + ncclVersionText(all[i].version) +
                                ", and rank 0 " + ncclVersionText(all[0].version) + "; all ranks have the same");
  return std::move(*opened);
}

} // namespace

Expected<std::shared_ptr<Ranks>> joinNcclRanks(Session &session, std::shared_ptr<Ranks> host) {
  std::shared_ptr<NcclRanks> ranks;
  Error error = session.attempt([&] {
    Nccl nccl = openOnAll(*host);
    struct Made {
      int32_t status = 0;
      NcclId id = {};
    } made;
    if (host->rank() == 0)
      made.status = nccl.getUniqueId(&made.id);
    const Expected<RankWork> sent = host->broadcast(&made, sizeof made, 0);
    if (Error failed = sent ? host->wait(*sent) : sent.error())
      throw CudaError(failed.message());
    if (made.status != ncclSuccess)
      throw CudaError("making an id for the ranks failed on rank 0: " + nccl.explain(made.status, nullptr));
    ranks = std::make_shared<NcclRanks>(session, std::move(nccl), host);
    ranks->join(made.id);
  });
  if (error)
    return error;
  return std::shared_ptr<Ranks>(std::move(ranks));
}

} // namespace tcc::runtime::cuda
