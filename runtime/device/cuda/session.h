// What a GPU, its programs and its memory share: the driver's device, one stream, the arena, and the one place where
// CudaError becomes Error.
#pragma once

#include "runtime/device/cuda/gemm.h"
#include "runtime/device/cuda/step_device.h"

#include <atomic>
#include <mutex>

namespace tcc::runtime::cuda {

struct Session {
  std::string name; ///< "cuda:0 (NVIDIA H200)"
  StepDeviceOptions options;
  std::unique_ptr<Device> device;
  Stream stream;
  Buffer arena;
  std::unique_ptr<Products> products; ///< opened for the first matmul
  Event turn;                         ///< for order(), which makes it at its first call
  std::atomic<std::int64_t> allocated = 0;
  std::shared_ptr<Ranks> ranks; ///< by NCCL; joined for the first program that exchanges something

  ~Session() { ranks.reset(); } // first, since it has a thread that uses the rest

  /// Runs `action`. A CudaError becomes an Error; if it leaves the context unusable, it also closes the session. Where
  /// the session is closed, the Error is the reason why.
  template <typename Action>
  Error attempt(Action &&action);
  /// Waits for all that was started. A capture by another thread ends first, since waiting would make it fail.
  void wait() {
    std::lock_guard guard(capturing);
    stream.synchronize();
  }
  /// Lets what `later` gets from now on begin after all that `first` has now. Throws CudaError.
  void order(const Stream &first, const Stream &later) {
    if (!turn)
      turn = device->makeEvent(false);
    first.record(turn);
    later.waitFor(turn); // waits for this record of the event, even if order() records it again before it is reached
  }
  /// The reason why the session was closed; success while it is open.
  Error closed() const;
  void close(const std::string &reason);

  std::mutex capturing; ///< held while the stream is captured

private:
  mutable std::mutex lock;
  std::string closedBecause;
};

/// Whether this result of the driver means that its context gives nothing but errors from now on.
bool isSticky(int code);

template <typename Action>
Error Session::attempt(Action &&action) {
  if (Error error = closed())
    return error;
  try {
    device->makeCurrent();
    action();
    return closed(); // which another thread may have done meanwhile
  } catch (const CudaError &error) {
    if (isSticky(error.code()))
      close(error.what());
    if (Error reason = closed()) // by another thread, whose reason is what `action` has met, too
      return reason;
    return Error(error.what());
  }
}

/// A plan and its code objects as a program. Errors as for runtime::Device::load.
Expected<std::unique_ptr<Program>> loadProgram(std::shared_ptr<Session> session, const Plan &plan,
                                               std::span<const std::string> code, const ProgramOptions &options);

} // namespace tcc::runtime::cuda
