// How the stand-ins of one machine find each other. The runtime opens each of them by itself (dlopen, local symbols),
// so they meet in this small shared library that all of them link: the driver's stand-in fills the table when it is
// loaded, the others use what is there. An empty entry means that there is no driver: work is run at once, memory is
// not checked.
#pragma once

#include <cstddef>

struct TccStreamHook {
  /// Puts an operation after what is on the stream (a CUstream; null is the default stream). While the stream is being
  /// captured the operation is recorded and runs at each launch of the graph. `run(argument)` is called any number of
  /// times, never from two threads at once; `destroy(argument)` once, when it can run no more, also when the call
  /// fails. Returns a CUresult: 0, or why the operation was not taken (a capture that was invalidated, a lost device).
  int (*enqueue)(void *stream, void (*run)(void *), void *argument, void (*destroy)(void *));
  /// Whether [address, address + bytes) lies in one allocation of the device that is still alive.
  int (*isDeviceMemory)(const void *address, std::size_t bytes);
  /// An operation found at run time that it must not touch what it was given: the device is lost, the next call that
  /// reports errors of the stream returns CUDA_ERROR_ILLEGAL_ADDRESS, and the text is kept as the machine's finding.
  void (*fault)(const char *text);
  /// 1 while the stream is being captured, else 0.
  int (*isCapturing)(void *stream) = nullptr;
  /// The number of the device whose context is current on this thread; -1 where none is.
  int (*device)() = nullptr;
  /// Runs what is on the streams of all devices, unless a call of the driver is running. For a stand-in whose work
  /// other processes wait for: a device goes on without its host.
  void (*advance)() = nullptr;
};

/// The one table of the process.
extern "C" TccStreamHook *tccStreamHook();
