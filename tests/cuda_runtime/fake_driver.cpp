// A stand-in for libcuda with the same exported names: host memory, counted handles, the last launch recorded, and one
// failure on request. It exists so that owners, launches and messages are tested without a device.
#include <cstdlib>
#include <cstring>
#include <string>

struct FakeState {
  int live = 0; // Handles and allocations not yet released.
  int devices = 1;
  int capability = 90;
  int dynamicShared = 0;
  unsigned launch[7] = {};
  unsigned attributeCount = 0;
  unsigned cluster[3] = {};
  int argument = 0;
  int staticShared = 0;
  unsigned long long variable = 0; // The one `__device__` variable of every module.
  char failing[64] = {};           // The function that fails next.
  int failure = 0;
  int graphLaunches = 0;
};

static FakeState state;

extern "C" FakeState *fakeState() {
  return &state;
}

static int driverVersion = 13000;

/// What cuDriverGetVersion tells.
extern "C" int *fakeDriverVersion() {
  return &driverVersion;
}

static int outcome(const char *function) {
  if (state.failure == 0 || std::strcmp(function, state.failing) != 0)
    return 0;
  int code = state.failure;
  state.failure = 0;
  return code;
}

static int open(void **handle, const char *function) {
  if (int code = outcome(function))
    return code;
  *handle = std::malloc(1);
  ++state.live;
  return 0;
}

static int close(void *handle) {
  std::free(handle);
  --state.live;
  return 0;
}

extern "C" {
int cuInit(unsigned) {
  return outcome(__func__);
}
int cuDriverGetVersion(int *version) {
  return *version = driverVersion, outcome(__func__);
}
int cuGetErrorName(int code, const char **name) {
  return *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : nullptr, 0;
}
int cuGetErrorString(int code, const char **text) {
  return *text = code == 2 ? "out of memory" : nullptr, 0;
}
int cuDeviceGetCount(int *count) {
  return *count = state.devices, 0;
}
int cuDeviceGet(int *device, int ordinal) {
  return *device = ordinal, 0;
}
int cuDeviceGetName(char *name, int, int) {
  return std::strcpy(name, "Fake H200"), 0;
}
int cuDeviceGetAttribute(int *value, int which, int) {
  *value = which == 75 ? state.capability / 10 : which == 76 ? state.capability % 10 : 132;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t *bytes, int) {
  return *bytes = 1u << 30, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
  return ++state.live, *context = &state, outcome(__func__);
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return --state.live, 0;
}
int cuCtxSetCurrent(void *) {
  return 0;
}
int cuModuleLoadDataEx(void **module, const void *, unsigned count, int *options, void **values) {
  if (int code = outcome(__func__)) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "no kernel image for this device");
    return code;
  }
  return open(module, "");
}
int cuModuleUnload(void *module) {
  return close(module);
}
int cuModuleGetFunction(void **function, void *, const char *) {
  return *function = &state, outcome(__func__);
}
int cuModuleGetGlobal_v2(unsigned long long *address, std::size_t *bytes, void *, const char *) {
  *address = reinterpret_cast<unsigned long long>(&state.variable);
  return *bytes = sizeof state.variable, outcome(__func__);
}
int cuFuncSetAttribute(void *, int which, int value) {
  if (which == 8)
    state.dynamicShared = value;
  return outcome(__func__);
}
int cuFuncGetAttribute(int *value, int which, void *) {
  return *value = which == 4 ? 168 : which == 1 ? state.staticShared : 0, 0;
}

/// The rules that callers break first.
int cuTensorMapEncodeTiled(void *map, int dataType, unsigned rank, void *address, const unsigned long long *sizes,
                           const unsigned long long *strides, const unsigned *box, const unsigned *steps,
                           int interleave, int swizzle, int promotion, int fill) {
  constexpr int invalid = 1;
  auto at = [](const void *pointer) { return reinterpret_cast<unsigned long long>(pointer); };
  if (at(map) % 64 || at(address) % 16 || rank < 1 || rank > 5 || dataType < 0 || dataType > 15 || interleave ||
      swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill)
    return invalid;
  for (unsigned i = 0; i < rank; ++i)
    if (!sizes[i] || sizes[i] > 1ull << 32 || !box[i] || box[i] > 256 || steps[i] != 1 ||
        (i + 1 < rank && (strides[i] % 16 || strides[i] >= 1ull << 40)))
      return invalid;
  unsigned inner = box[0] * 2, widths[4] = {512, 32, 64, 128};
  if (inner % 16 || inner > widths[swizzle])
    return invalid;
  return std::memset(map, 0, 128), outcome(__func__);
}

struct Attribute {
  int id;
  int pad;
  unsigned value[16];
};
struct Config {
  unsigned shape[7];
  void *stream;
  Attribute *attributes;
  unsigned count;
};
int cuLaunchKernelEx(const Config *config, void *, void **arguments, void **) {
  if (int code = outcome(__func__))
    return code;
  std::memcpy(state.launch, config->shape, sizeof state.launch);
  state.attributeCount = config->count;
  for (unsigned i = 0; i < config->count; ++i)
    if (config->attributes[i].id == 4)
      std::memcpy(state.cluster, config->attributes[i].value, sizeof state.cluster);
  state.argument = *static_cast<int *>(arguments[0]);
  return 0;
}
int cuMemGetInfo_v2(std::size_t *available, std::size_t *total) {
  return *available = 1u << 29, *total = 1u << 30, outcome(__func__);
}
int cuMemAlloc_v2(unsigned long long *address, std::size_t bytes) {
  if (int code = outcome(__func__))
    return code;
  *address = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  ++state.live;
  return 0;
}
int cuMemFree_v2(unsigned long long address) {
  return close(reinterpret_cast<void *>(address));
}
int cuMemHostAlloc(void **address, std::size_t bytes, unsigned) {
  *address = std::malloc(bytes);
  ++state.live;
  return 0;
}
int cuMemHostGetDevicePointer_v2(unsigned long long *address, void *host, unsigned) {
  return *address = reinterpret_cast<unsigned long long>(host), outcome(__func__);
}
int cuMemFreeHost(void *address) {
  return close(address);
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, std::size_t bytes, void *) {
  return std::memcpy(reinterpret_cast<void *>(to), from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, std::size_t bytes, void *) {
  return std::memcpy(to, reinterpret_cast<void *>(from), bytes), 0;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes, void *) {
  return std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes), 0;
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes, void *) {
  return std::memset(reinterpret_cast<void *>(to), value, bytes), 0;
}
int cuStreamCreate(void **stream, unsigned) {
  return open(stream, __func__);
}
int cuStreamDestroy_v2(void *stream) {
  return close(stream);
}
int cuStreamSynchronize(void *) {
  return outcome(__func__);
}
int cuStreamWaitEvent(void *, void *, unsigned) {
  return outcome(__func__);
}
int cuEventCreate(void **event, unsigned) {
  return open(event, __func__);
}
int cuEventDestroy_v2(void *event) {
  return close(event);
}
int cuEventRecord(void *, void *) {
  return outcome(__func__);
}
int cuEventSynchronize(void *) {
  return outcome(__func__);
}
int cuEventQuery(void *) {
  return outcome(__func__);
}
int cuEventElapsedTime(float *milliseconds, void *, void *) {
  return *milliseconds = 1.5f, 0;
}
int cuStreamBeginCapture_v2(void *, int mode) {
  return mode == 1 ? outcome(__func__) : 1;
}
int cuStreamEndCapture(void *, void **graph) {
  return open(graph, __func__);
}
int cuGraphInstantiateWithFlags(void **executable, void *, unsigned long long) {
  return open(executable, __func__);
}
int cuGraphLaunch(void *, void *) {
  return ++state.graphLaunches, outcome(__func__);
}
int cuGraphExecDestroy(void *executable) {
  return close(executable);
}
int cuGraphDestroy(void *graph) {
  return close(graph);
}
}
