// How the pool's threads wait for each other. They spin for milliseconds before they sleep. That is right on a quiet
// machine. But if other programs want the CPUs, a spinning thread takes time from the thread that it waits for, and a
// step of many short calls becomes ten times as slow. The functions here watch how long the process's threads queue for
// a CPU, and let the threads of a team (threads.h) and those of libgomp spin only briefly while they do.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace tcc::runtime {

/// Decides from samples of the queueing time whether the machine is busy. It decides so at the first busy sample, and
/// takes it back only after a number of quiet ones.
class BusyJudge {
public:
  /// Share of the threads' time that is spent queueing for a CPU from which a machine counts as busy. One other thread
  /// that wants a CPU makes it a third or more on two CPUs; what a system does in the background, up to 3 %.
  static constexpr double busyShare = 0.1;
  /// Samples in a row without queueing after which it counts as quiet again.
  static constexpr int quietSamples = 5;

  /// `queued` of `available` nanoseconds were spent queueing since the last sample.
  void sample(int64_t queued, int64_t available);
  bool busy() const { return judgedBusy; }

private:
  bool judgedBusy = false;
  int quiet = 0;
};

/// Nanoseconds that the process's threads have queued for a CPU, all added up; nothing if the kernel does not say.
std::optional<int64_t> queuedNanoseconds();

/// To be called between the calls of a run on `threads` threads. It takes a sample at most every 200 ms (a background
/// process that runs for 5 ms would fill a tenth of 50) and sets how the threads wait. If the user has chosen that
/// (OMP_WAIT_POLICY, GOMP_SPINCOUNT), it does nothing. Any thread may call it.
void adaptWaiting(int threads);

/// Makes a pool of `threads` threads wait briefly (sleep soon) or, again, as long as libgomp does by itself.
/// Process-wide.
void setBriefWaits(bool brief, int threads);
bool waitsAreBrief();

} // namespace tcc::runtime
