// Sampling /proc, and the switch: libgomp spins briefly while it has more threads than CPUs (its manual,
// GOMP_SPINCOUNT). A thread of our own that owns idle pool threads makes it so.
#include "runtime/wait_policy.h"
#include "runtime/threads.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <mutex>
#include <string>
#include <strings.h>
#include <system_error>
#include <thread>

namespace tcc::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds sampleEvery{200};
/// How long threads of a team spin on a busy machine: as a thread takes to wake up.
constexpr std::chrono::microseconds briefSpin{50};

/// Holds idle pool threads from its construction to its end.
class IdleTeam {
public:
  explicit IdleTeam(int team) : owner([this, team] { own(team); }) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return made; });
  }
  ~IdleTeam() {
    {
      const std::lock_guard lock(mutex);
      released = true;
    }
    changed.notify_all();
    owner.join();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool made = false, released = false;
  std::thread owner; // last: it uses the others

  void own(int team) {
    setThreadCount(team);
    parallelRun(team, [](int64_t) {}); // from here on the team sleeps; it ends with this thread
    std::unique_lock lock(mutex);
    made = true;
    changed.notify_all();
    changed.wait(lock, [this] { return released; });
  }
};

/// Whether the environment says how threads wait. A team's threads follow OMP_WAIT_POLICY as libgomp's do.
bool isChosenByUser() {
  const char *policy = std::getenv("OMP_WAIT_POLICY");
  if (policy)
    setSpinTime(::strcasecmp(policy, "passive") == 0 ? std::chrono::minutes(0) : std::chrono::minutes(5));
  return policy || std::getenv("GOMP_SPINCOUNT");
}

struct Watch {
  std::mutex mutex;
  const bool chosenByUser = isChosenByUser();
  BusyJudge judge;
  Clock::time_point lastTime = Clock::now();
  std::optional<int64_t> lastQueued = queuedNanoseconds();
};

struct Waits {
  std::mutex mutex;
  std::unique_ptr<IdleTeam> idle;
  std::atomic<bool> brief = false;
};

/// Never destroyed: at exit a thread may still be in a run.
template <typename T>
T &immortal() {
  static T *made = new T;
  return *made;
}

} // namespace

void BusyJudge::sample(int64_t queued, int64_t available) {
  if (available <= 0)
    return;
  if (static_cast<double>(queued) > busyShare * static_cast<double>(available)) {
    judgedBusy = true;
    quiet = 0;
  } else if (++quiet >= quietSamples) {
    judgedBusy = false;
  }
}

std::optional<int64_t> queuedNanoseconds() {
  const std::unique_ptr<DIR, int (*)(DIR *)> tasks(::opendir("/proc/self/task"), ::closedir);
  if (!tasks)
    return std::nullopt;
  std::optional<int64_t> total;
  while (const dirent *task = ::readdir(tasks.get())) {
    if (task->d_name[0] == '.')
      continue;
    const std::string path = std::string("/proc/self/task/") + task->d_name + "/schedstat";
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "re"), std::fclose);
    long long running = 0, queued = 0;
    if (file && std::fscanf(file.get(), "%lld %lld", &running, &queued) == 2) // a thread may have ended since
      total = total.value_or(0) + queued;
  }
  return total;
}

void adaptWaiting(int threads) {
  Watch &watch = immortal<Watch>();
  const std::unique_lock lock(watch.mutex, std::try_to_lock);
  if (!lock || threads < 2 || watch.chosenByUser || !watch.lastQueued)
    return;
  const Clock::time_point now = Clock::now();
  if (now - watch.lastTime < sampleEvery)
    return;
  const std::optional<int64_t> queued = queuedNanoseconds();
  if (!queued)
    return;
  const int64_t wall = std::chrono::duration_cast<std::chrono::nanoseconds>(now - watch.lastTime).count();
  // Ended threads take their time with them.
  watch.judge.sample(std::max<int64_t>(0, *queued - *watch.lastQueued), wall * threads);
  watch.lastTime = now;
  watch.lastQueued = queued;
  if (watch.judge.busy() != waitsAreBrief())
    setBriefWaits(watch.judge.busy(), threads);
}

void setBriefWaits(bool brief, int threads) {
  Waits &waits = immortal<Waits>();
  const std::lock_guard lock(waits.mutex);
  waits.idle.reset();
  waits.brief = false;
  setSpinTime(brief ? briefSpin : usualSpin);
  if (!brief)
    return;
  try {
    waits.idle = std::make_unique<IdleTeam>(std::max(2, availableThreads() - threads + 2));
    waits.brief = true;
  } catch (const std::system_error &) {
    // No more threads are to be had; the pool waits as before.
  }
}

bool waitsAreBrief() {
  return immortal<Waits>().brief;
}

} // namespace tcc::runtime
