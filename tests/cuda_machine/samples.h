// Kernels for the tests of the machine, and a device with their module loaded.
#pragma once

#include "codegen/cuda/device/device_text.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tcc::machine {

namespace cuda = runtime::cuda;

inline const char *const sampleText = R"(
KERNEL(fill, 128, 1)(float *out, float value, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n)
    out[i] = value;
}
KERNEL(add_one, 128, 1)(float *data, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n)
    data[i] += 1.0f;
}
KERNEL(copy, 128, 1)(const float *in, float *out, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n)
    out[i] = in[i];
}
KERNEL(reversed, 128, 1)(const float *in, float *out) {
  DYNAMIC_SHARED(bytes, 16);
  float *row = reinterpret_cast<float *>(bytes);
  row[thread_x()] = in[block_x() * 128 + thread_x()];
  block_barrier();
  out[block_x() * 128 + thread_x()] = row[127 - thread_x()];
}
KERNEL(unordered, 128, 1)(const float *in, float *out) {
  SHARED(float, row, 128);
  row[thread_x()] = in[thread_x()];
  out[thread_x()] = row[127 - thread_x()];
}
KERNEL(beyond, 128, 1)(float *out, int n) {
  out[n + thread_x()] = 1.0f;
}
KERNEL(nothing, 32, 1)() {}
)";

/// "kernel.cu:12", the line of the sample text that holds the part.
inline std::string placeOf(const std::string &part) {
  std::string text = sampleText;
  return "kernel.cu:" +
         std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<long>(text.find(part)), '\n'));
}

/// A device of the machine with the sample kernels loaded and a stream.
struct Loaded {
  std::unique_ptr<cuda::Device> device;
  cuda::Module module;
  cuda::Stream stream;
  explicit Loaded(int ordinal = 0) {
    device = cuda::Device::open(ordinal);
    cuda::CompileRequest request{
        "sample.cu", tcc::cuda::deviceText(tcc::cuda::Prelude::Portable) + sampleText, device->architecture(), {}};
    module = device->load(cuda::Nvrtc::open().compile(request).cubin);
    stream = device->makeStream();
  }
  template <class... Arguments>
  void launch(const cuda::Stream &on, const std::string &kernel, unsigned blocks, Arguments... arguments) const {
    void *pointers[] = {static_cast<void *>(&arguments)..., nullptr};
    module.kernel(kernel).launch(on,
                                 {.grid = {blocks, 1, 1},
                                  .block = {kernel == "nothing" ? 32u : 128u, 1, 1},
                                  .sharedBytes = kernel == "reversed" ? 512u : 0u},
                                 {pointers, sizeof...(arguments)});
  }
  std::vector<float> read(const cuda::Stream &from, cuda::DevicePointer address, std::size_t count) const {
    std::vector<float> values(count);
    from.copyToHost(values.data(), address, count * sizeof(float));
    from.synchronize();
    return values;
  }
  /// The driver's function of this name; `Function` is its type.
  template <class Function>
  Function *function(const char *symbol) const {
    return reinterpret_cast<Function *>(device->driver().library.get(symbol));
  }
};

/// What the action's CudaError says; "no error" without one.
template <class Action>
std::string errorOf(Action &&action) {
  try {
    action();
  } catch (const runtime::CudaError &error) {
    return error.what();
  }
  return "no error";
}

inline bool names(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace tcc::machine
