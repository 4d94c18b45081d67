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

struct Work {
  int64_t parts;
  void (*fn)(void *, int64_t);
  void *context;
};

// The team may be smaller than asked for (nested regions get one thread), so each member strides over the parts.
void runMember(void *data) {
  const Work &work = *static_cast<const Work *>(data);
  const int64_t step = omp_get_num_threads();
  for (int64_t part = omp_get_thread_num(); part < work.parts; part += step)
    work.fn(work.context, part);
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
  const int64_t team = std::min<int64_t>(parts, threadCount());
  if (team == 1 || hasLostPool()) {
    for (int64_t part = 0; part < parts; ++part)
      fn(context, part);
    return;
  }
  GOMP_parallel(runMember, &work, static_cast<unsigned>(team), 0);
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
