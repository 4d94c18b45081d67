// The pool: the only file that calls libgomp. GOMP_parallel is the entry that gcc's OpenMP code calls; going through it
// by hand keeps clang builds on the same pool (and keeps pragmas out).
#include "runtime/threads.h"
#include <algorithm>
#include <sched.h>
#include <unistd.h>

extern "C" {
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
}

namespace tcc::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Work {
  int64_t parts = 0;
  void (*fn)(void *, int64_t) = nullptr;
  void *context = nullptr;

  /// The parts of one of `members` threads. There may be fewer threads than were asked for (nested regions get one).
  void run(int64_t member, int64_t members) const {
    for (int64_t part = member; part < parts; part += members)
      fn(context, part);
  }
};

void runMember(void *data) {
  static_cast<const Work *>(data)->run(omp_get_thread_num(), omp_get_num_threads());
}

std::atomic<int64_t> spinTime = usualSpin.count(); // nanoseconds

/// Waits until `word` is no longer `old`: spins, lets other threads have the CPU every few microseconds, sleeps at
/// last.
void awaitOther(const std::atomic<uint32_t> &word, uint32_t old) {
  constexpr int turnsBetweenYields = 64;
  const int64_t limit = spinTime.load(std::memory_order_relaxed);
  Clock::time_point start{};
  for (int turn = 1; limit > 0; ++turn) {
    if (word.load(std::memory_order_acquire) != old)
      return;
    __builtin_ia32_pause();
    if (turn % turnsBetweenYields)
      continue;
    const Clock::time_point now = Clock::now();
    if (turn == turnsBetweenYields)
      start = now;
    else if ((now - start).count() > limit)
      break;
    sched_yield();
  }
  word.wait(old, std::memory_order_acquire);
}

/// The threads of a region of libgomp: the first has a body to run, the others do their parts of the body's calls.
class Team {
public:
  Team(void (*body)(void *), void *context) : body(body), context(context) {}

  void runMember(int64_t member, int64_t count);
  /// For the first member: all parts, on all threads.
  void run(const Work &given);
  /// The calling thread's: of the team whose body it runs; null within a part.
  static Team *&current() {
    static thread_local Team *team = nullptr;
    return team;
  }

private:
  void (*body)(void *);
  void *context;
  int64_t members = 1;
  Work work; // without a function: the end
  alignas(64) std::atomic<uint32_t> round = 0;
  alignas(64) std::atomic<uint32_t> busy = 0; // threads that have not done their parts of the round

  void begin(const Work &given) {
    work = given;
    busy.store(static_cast<uint32_t>(members - 1), std::memory_order_relaxed);
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
};

void Team::runMember(int64_t member, int64_t count) {
  if (member == 0) {
    members = count;
    current() = this;
    body(context);
    current() = nullptr;
    begin({});
    return;
  }
  for (uint32_t seen = 0;; ++seen) {
    awaitOther(round, seen);
    if (!work.fn)
      return;
    work.run(member, count);
    if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1)
      busy.notify_one();
  }
}

void Team::run(const Work &given) {
  if (members == 1) {
    given.run(0, 1);
    return;
  }
  begin(given);
  current() = nullptr;
  given.run(0, members);
  current() = this;
  for (uint32_t left = busy.load(std::memory_order_acquire); left > 0; left = busy.load(std::memory_order_acquire))
    awaitOther(busy, left);
}

} // namespace

int availableThreads() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&cpus));
}

void setThreadCount(int threads) {
  omp_set_num_threads(std::max(1, threads));
}

int threadCount() {
  return omp_get_max_threads();
}

/// Whether the pool belongs to a process that this one was forked from: its threads are not here.
static bool hasLostPool() {
  static std::atomic<pid_t> owner = 0; // who used the pool first
  const pid_t self = getpid();
  pid_t nobody = 0;
  return !owner.compare_exchange_strong(nobody, self, std::memory_order_relaxed) && nobody != self;
}

void parallelRun(int64_t parts, void (*fn)(void *context, int64_t part), void *context) {
  if (parts <= 0)
    return;
  Work work{parts, fn, context};
  const int64_t threads = std::min<int64_t>(parts, threadCount());
  if (threads == 1 || hasLostPool())
    work.run(0, 1);
  else if (Team *team = Team::current())
    team->run(work);
  else
    GOMP_parallel(runMember, &work, static_cast<unsigned>(threads), 0);
}

void withTeam(void (*body)(void *context), void *context) {
  const int threads = threadCount();
  if (threads == 1 || Team::current() || hasLostPool()) {
    body(context);
    return;
  }
  Team team(body, context);
  const auto member = [](void *data) {
    static_cast<Team *>(data)->runMember(omp_get_thread_num(), omp_get_num_threads());
  };
  GOMP_parallel(member, &team, static_cast<unsigned>(threads), 0);
}

void setSpinTime(std::chrono::nanoseconds time) {
  spinTime = time.count();
}

void awaitCount(const std::atomic<int64_t> &count, int64_t least) {
  constexpr int turns = 200; // a few microseconds; then the other thread may need this one's CPU
  for (int turn = 0; count.load(std::memory_order_acquire) < least; ++turn)
    if (turn >= turns)
      sched_yield();
    else
      __builtin_ia32_pause();
}

Range cutRange(int64_t extent, int64_t granularity, int64_t parts, int64_t part) {
  // Whole grains: the first `extra` parts get one more than the others.
  const int64_t grains = extent / granularity + (extent % granularity != 0);
  const int64_t each = grains / parts, extra = grains % parts;
  const int64_t first = part * each + std::min(part, extra);
  const int64_t last = first + each + (part < extra ? 1 : 0);
  return {first >= grains ? extent : first * granularity, last >= grains ? extent : last * granularity};
}

} // namespace tcc::runtime
