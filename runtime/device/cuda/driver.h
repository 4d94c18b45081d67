// The CUDA driver, opened at run time: the types and functions that the runtime uses, declared here so that no CUDA
// header is needed. Names, layouts and enumerator values are those of the driver's documented C interface.
#pragma once

#include "runtime/device/cuda/library.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tcc::runtime::cuda {

using Result = int;
using DeviceOrdinal = int;
using DevicePointer = unsigned long long;
using ContextHandle = struct ContextOpaque *;
using ModuleHandle = struct ModuleOpaque *;
using FunctionHandle = struct FunctionOpaque *;
using StreamHandle = struct StreamOpaque *;
using EventHandle = struct EventOpaque *;
using GraphHandle = struct GraphOpaque *;
using GraphExecHandle = struct GraphExecOpaque *;

/// How a capture treats other threads. In this mode it concerns the calling thread alone, and nothing that other
/// threads do makes it fail.
enum CaptureMode : int { captureThreadLocal = 1 };

enum DeviceAttribute : int {
  attributeMaxSharedPerBlock = 8,
  attributeClockRate = 13,
  attributeMultiprocessors = 16,
  attributeMajor = 75,
  attributeMinor = 76,
  attributeMaxSharedPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  functionStaticShared = 1,
  functionLocalBytes = 3,
  functionRegisters = 4,
  functionMaxDynamicShared = 8,
};

enum LaunchAttributeId : int { launchCooperative = 2, launchCluster = 4, launchProgrammaticSerialization = 6 };

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int flag;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned sharedBytes;
  StreamHandle stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(LaunchConfig) == 56);

/// 128 opaque bytes that the driver fills; kernels take it as a `const __grid_constant__` parameter.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// Arguments of cuTensorMapEncodeTiled: elements of 16 bits of any type, swizzles by their number of bytes, reads of
/// 128 bytes through the L2 cache.
enum TensorMapValue : int {
  mapElement16 = 1,
  mapSwizzleNone = 0,
  mapSwizzle32 = 1,
  mapSwizzle64 = 2,
  mapSwizzle128 = 3,
  mapPromote128 = 2,
};

/// Each line is a function: its member, its exported symbol, its parameter types. All return a Result.
#define TCC_CUDA_DRIVER_FUNCTIONS(X)                                                                                   \
  X(init, cuInit, (unsigned))                                                                                          \
  X(driverGetVersion, cuDriverGetVersion, (int *))                                                                     \
  X(getErrorName, cuGetErrorName, (Result, const char **))                                                             \
  X(getErrorString, cuGetErrorString, (Result, const char **))                                                         \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                                                         \
  X(deviceGet, cuDeviceGet, (DeviceOrdinal *, int))                                                                    \
  X(deviceGetName, cuDeviceGetName, (char *, int, DeviceOrdinal))                                                      \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, DeviceAttribute, DeviceOrdinal))                                 \
  X(deviceTotalMem, cuDeviceTotalMem_v2, (std::size_t *, DeviceOrdinal))                                               \
  X(contextRetain, cuDevicePrimaryCtxRetain, (ContextHandle *, DeviceOrdinal))                                         \
  X(contextRelease, cuDevicePrimaryCtxRelease_v2, (DeviceOrdinal))                                                     \
  X(contextSetCurrent, cuCtxSetCurrent, (ContextHandle))                                                               \
  X(moduleLoad, cuModuleLoadDataEx, (ModuleHandle *, const void *, unsigned, int *, void **))                          \
  X(moduleUnload, cuModuleUnload, (ModuleHandle))                                                                      \
  X(moduleGetFunction, cuModuleGetFunction, (FunctionHandle *, ModuleHandle, const char *))                            \
  X(moduleGetGlobal, cuModuleGetGlobal_v2, (DevicePointer *, std::size_t *, ModuleHandle, const char *))               \
  X(functionSetAttribute, cuFuncSetAttribute, (FunctionHandle, FunctionAttribute, int))                                \
  X(functionGetAttribute, cuFuncGetAttribute, (int *, FunctionAttribute, FunctionHandle))                              \
  X(launch, cuLaunchKernelEx, (const LaunchConfig *, FunctionHandle, void **, void **))                                \
  X(memGetInfo, cuMemGetInfo_v2, (std::size_t *, std::size_t *))                                                       \
  X(memAlloc, cuMemAlloc_v2, (DevicePointer *, std::size_t))                                                           \
  X(memFree, cuMemFree_v2, (DevicePointer))                                                                            \
  X(hostAlloc, cuMemHostAlloc, (void **, std::size_t, unsigned))                                                       \
  X(hostDevicePointer, cuMemHostGetDevicePointer_v2, (DevicePointer *, void *, unsigned))                              \
  X(hostFree, cuMemFreeHost, (void *))                                                                                 \
  X(copyToDevice, cuMemcpyHtoDAsync_v2, (DevicePointer, const void *, std::size_t, StreamHandle))                      \
  X(copyToHost, cuMemcpyDtoHAsync_v2, (void *, DevicePointer, std::size_t, StreamHandle))                              \
  X(copyOnDevice, cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, std::size_t, StreamHandle))                     \
  X(setBytes, cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, StreamHandle))                              \
  X(streamCreate, cuStreamCreate, (StreamHandle *, unsigned))                                                          \
  X(streamDestroy, cuStreamDestroy_v2, (StreamHandle))                                                                 \
  X(streamSynchronize, cuStreamSynchronize, (StreamHandle))                                                            \
  X(streamWaitEvent, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                                         \
  X(eventCreate, cuEventCreate, (EventHandle *, unsigned))                                                             \
  X(eventDestroy, cuEventDestroy_v2, (EventHandle))                                                                    \
  X(eventRecord, cuEventRecord, (EventHandle, StreamHandle))                                                           \
  X(eventSynchronize, cuEventSynchronize, (EventHandle))                                                               \
  X(eventQuery, cuEventQuery, (EventHandle))                                                                           \
  X(eventElapsed, cuEventElapsedTime, (float *, EventHandle, EventHandle))                                             \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (StreamHandle, CaptureMode))                                          \
  X(streamEndCapture, cuStreamEndCapture, (StreamHandle, GraphHandle *))                                               \
  X(graphInstantiate, cuGraphInstantiateWithFlags, (GraphExecHandle *, GraphHandle, unsigned long long))               \
  X(graphLaunch, cuGraphLaunch, (GraphExecHandle, StreamHandle))                                                       \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExecHandle))                                                           \
  X(graphDestroy, cuGraphDestroy, (GraphHandle))

/// cuTensorMapEncodeTiled; absent before driver 12.0, so it may be null.
using EncodeTensorMap = Result (*)(TensorMap *, int dataType, std::uint32_t rank, void *address,
                                   const std::uint64_t *extents, const std::uint64_t *strides, const std::uint32_t *box,
                                   const std::uint32_t *elementStrides, int interleave, int swizzle, int promotion,
                                   int outOfBounds);

/// The driver's functions, resolved once. TCC_CUDA_DRIVER names another library file.
struct Driver {
  /// Opens libcuda.so.1 and initialises it; throws CudaError (no driver, too old, no device).
  static Driver open();
  /// Whether the driver's library is there. It may still find no device.
  static bool isInstalled();
  /// The version of the driver, read without initialising it; nothing if no driver is installed. Throws CudaError.
  static std::optional<int> installedVersion();
  /// The CUDA that the driver is for: 1000·major + 10·minor.
  int version() const;

  /// Throws CudaError "doing: NAME (text)", with the code, unless `result` is 0.
  void check(Result result, const std::string &doing) const;

  Library library;
  EncodeTensorMap encodeTensorMap = nullptr;
#define TCC_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
  TCC_CUDA_DRIVER_FUNCTIONS(TCC_DECLARE)
#undef TCC_DECLARE

private:
  static Driver resolved();
};

/// "12.4" of 12040.
std::string versionText(int version);

/// Which NVRTC and cuBLASLt fit the driver. A driver takes code of its own major version and of older ones, whatever
/// the minor versions are. So libraries of the driver's major version are looked for first, then older ones, then any.
/// Without a driver the newest comes first, and all fit.
struct DriverFit {
  explicit DriverFit(std::optional<int> driver = Driver::installedVersion()) : driver(driver) {}
  /// "libnvrtc.so" → "libnvrtc.so.12", "libnvrtc.so", "libnvrtc.so.13" for a driver of 12.x.
  std::vector<std::string> fileNames(const std::string &name) const;
  /// Why a library of `version` (1000·major + 10·minor) does not fit, or an empty text.
  std::string misfit(int version) const;
  /// How to get the package that fits: "nvidia-cuda-nvrtc" → "`pip install nvidia-cuda-nvrtc-cu12`, …".
  std::string install(const std::string &package) const;

  std::optional<int> driver;
};

} // namespace tcc::runtime::cuda
