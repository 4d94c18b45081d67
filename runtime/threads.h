// The one thread pool, which is libgomp's. Matmuls and kernels both use it, so that they never fight for CPUs.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tcc::runtime {

/// CPUs that this process may run on.
int availableThreads();

/// Sets how many threads parallelRun() uses when the calling thread calls it.
void setThreadCount(int threads);
int threadCount();

/// Sets the thread count for a scope, and sets the old one again at its end.
class ThreadCountScope {
public:
  explicit ThreadCountScope(int threads) : previous(threadCount()) { setThreadCount(threads); }
  ~ThreadCountScope() { setThreadCount(previous); }
  ThreadCountScope(const ThreadCountScope &) = delete;
  ThreadCountScope &operator=(const ThreadCountScope &) = delete;

private:
  int previous;
};

/// Calls fn(context, part) once for each part in [0, parts), on the threads of the pool, and returns when all are done.
/// fn must not throw. If the process was forked after its parent had used the pool, the pool's threads do not exist,
/// and the calling thread does all parts.
void parallelRun(int64_t parts, void (*fn)(void *context, int64_t part), void *context);

template <typename Fn>
void parallelRun(int64_t parts, Fn &&fn) {
  using Callable = std::remove_reference_t<Fn>;
  parallelRun(
      parts, [](void *context, int64_t part) { (*static_cast<Callable *>(context))(part); },
      const_cast<void *>(static_cast<const void *>(std::addressof(fn))));
}

/// Calls `body` on the calling thread, while the other threads of the pool stand by for the parallelRun() calls of the
/// body. Between two calls they wait as setSpinTime() says, and libgomp is not asked: that saves it time, and it spins
/// but briefly where a process has more of its threads than CPUs, as one with a second pool has. The body must not
/// throw, and must not call code that uses OpenMP itself, which would find one thread.
void withTeam(void (*body)(void *context), void *context);

template <typename Body>
void withTeam(Body &&body) {
  using Callable = std::remove_reference_t<Body>;
  withTeam([](void *context) { (*static_cast<Callable *>(context))(); },
           const_cast<void *>(static_cast<const void *>(std::addressof(body))));
}

/// How long a thread of a team spins before it sleeps, unless setSpinTime() says otherwise: about as long as libgomp's
/// do by themselves.
inline constexpr std::chrono::nanoseconds usualSpin = std::chrono::milliseconds(10);
void setSpinTime(std::chrono::nanoseconds time);

/// Calls fn(task, worker) once for each task in [0, tasks): each of `workers` threads takes the task of its own number
/// first, so that none is without one, and then the next one when it is free. One worker is the calling thread.
template <typename Fn>
void takeTasks(int64_t tasks, int64_t workers, Fn &&fn) {
  workers = std::min(tasks, workers);
  if (workers <= 1) {
    for (int64_t task = 0; task < tasks; ++task)
      fn(task, int64_t{0});
    return;
  }
  std::atomic<int64_t> next = workers;
  parallelRun(workers, [&](int64_t worker) {
    for (int64_t task = worker; task < tasks; task = next.fetch_add(1, std::memory_order_relaxed))
      fn(task, worker);
  });
}

/// Waits until `count` is at least `least`, as another thread of the pool makes it. What that thread did before is
/// seen.
void awaitCount(const std::atomic<int64_t> &count, int64_t least);

/// [begin, end) of part `part` when [0, extent) is cut into `parts` nearly equal pieces at multiples of `granularity`.
struct Range {
  int64_t begin, end;
};
Range cutRange(int64_t extent, int64_t granularity, int64_t parts, int64_t part);

/// Calls fn(begin, end) over [0, extent), cut by cutRange into one piece a thread; empty pieces are not called.
template <typename Fn>
void parallelFor(int64_t extent, int64_t granularity, Fn &&fn) {
  const int64_t parts = threadCount();
  parallelRun(parts, [&](int64_t part) {
    const Range range = cutRange(extent, granularity, parts, part);
    if (range.begin < range.end)
      fn(range.begin, range.end);
  });
}

} // namespace tcc::runtime
