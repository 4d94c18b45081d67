// The CUDA device: cubins by NVRTC or from a folder, launches through the driver.
#include "backend.h"

#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using runtime::CudaError;
namespace rc = runtime::cuda;

namespace {

/// FNV-1a over everything that decides the machine code.
std::string cubinName(const AttentionKernel &kernel, const std::string &architecture) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : deviceText(kernel.prelude) + kernel.text + architecture)
    hash = (hash ^ byte) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return kernel.name + "." + architecture + "." + digits + ".cubin";
}

rc::CompileRequest requestFor(const AttentionKernel &kernel, const std::string &architecture) {
  return {kernel.name + ".cu", deviceText(kernel.prelude) + kernel.text, architecture, {}};
}

void save(const std::string &path, const std::vector<char> &cubin) {
  std::ofstream(path, std::ios::binary).write(cubin.data(), std::streamsize(cubin.size()));
}

class DeviceBackend : public Backend {
public:
  explicit DeviceBackend(std::string cubins)
      : device(rc::Device::open()), stream(device->makeStream()), cubins(std::move(cubins)) {}

  std::string name() const override { return device->name(); }
  std::string architecture() const override { return device->architecture(); }
  void *allocate(std::size_t bytes) override {
    buffers.push_back(device->allocate(bytes));
    return reinterpret_cast<void *>(buffers.back().address());
  }
  void releaseAll() override {
    stream.synchronize();
    buffers.clear();
  }
  void write(void *to, const void *from, std::size_t bytes) override {
    stream.copyToDevice(reinterpret_cast<rc::DevicePointer>(to), from, bytes);
    stream.synchronize();
  }
  void read(void *to, const void *from, std::size_t bytes) override {
    stream.copyToHost(to, reinterpret_cast<rc::DevicePointer>(from), bytes);
    stream.synchronize();
  }

  void launch(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch) override {
    auto grid = attentionGrid(kernel, arguments, batch);
    AttentionArguments copy = arguments;
    std::vector<rc::TensorMap> maps = encode(attentionMaps(kernel, arguments, batch));
    std::vector<void *> pointers = {&copy};
    for (rc::TensorMap &map : maps)
      pointers.push_back(&map);
    loaded(kernel).launch(
        stream, {.grid = grid, .block = {unsigned(kernel.threads), 1, 1}, .sharedBytes = unsigned(kernel.sharedBytes)},
        pointers);
  }
  void finish() override { stream.synchronize(); }

  double time(int repeats, const std::function<void()> &work) override {
    rc::Event start = device->makeEvent();
    rc::Event stop = device->makeEvent();
    stream.record(start);
    for (int i = 0; i < repeats; ++i)
      work();
    stream.record(stop);
    stop.synchronize();
    return stop.millisecondsSince(start) / 1e3;
  }
  int registers(const AttentionKernel &kernel) override { return loaded(kernel).registers(); }

  double copySpeed(std::size_t bytes) override {
    rc::Buffer from = device->allocate(bytes);
    rc::Buffer to = device->allocate(bytes);
    auto copy = [&] { stream.copyOnDevice(to.address(), from.address(), bytes); };
    time(3, copy);
    constexpr int repeats = 20;
    return 2.0 * double(bytes) * repeats / time(repeats, copy);
  }

private:
  rc::Kernel &loaded(const AttentionKernel &kernel) {
    auto found = kernels.find(kernel.text);
    if (found != kernels.end())
      return found->second;
    std::vector<char> cubin = cubinFor(kernel);
    modules.push_back(device->load(cubin));
    return kernels.emplace(kernel.text, modules.back().kernel(kernel.name, unsigned(kernel.sharedBytes))).first->second;
  }

  std::vector<char> cubinFor(const AttentionKernel &kernel) {
    std::string path = cubins.empty() ? "" : cubins + "/" + cubinName(kernel, architecture());
    if (std::ifstream file(path, std::ios::binary); !path.empty() && file)
      return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::vector<char> cubin = rc::Nvrtc::open().compile(requestFor(kernel, architecture())).cubin;
    if (!path.empty())
      save(path, cubin);
    return cubin;
  }

  std::vector<rc::TensorMap> encode(const std::vector<AttentionMap> &maps) {
    std::vector<rc::TensorMap> encoded(maps.size());
    if (!maps.empty() && !device->driver().encodeTensorMap)
      throw CudaError("the driver has no cuTensorMapEncodeTiled: version 12.0 or later is needed");
    for (std::size_t i = 0; i < maps.size(); ++i) {
      // The values of CUtensorMapDataType (the element's), CUtensorMapSwizzle (128 B) and CUtensorMapL2promotion (128
      // B).
      constexpr int bits16 = 1;
      constexpr int swizzle128 = 3;
      constexpr int promote128 = 2;
      std::uint64_t sizes[4], strides[3];
      std::uint32_t steps[4] = {1, 1, 1, 1};
      std::copy(maps[i].sizes.begin(), maps[i].sizes.end(), sizes);
      std::copy(maps[i].strides.begin(), maps[i].strides.end(), strides);
      device->driver().check(device->driver().encodeTensorMap(&encoded[i], bits16, 4, maps[i].address, sizes, strides,
                                                              maps[i].box.data(), steps, 0, swizzle128, promote128, 0),
                             "encoding a tensor map");
    }
    return encoded;
  }

  std::unique_ptr<rc::Device> device;
  rc::Stream stream;
  std::string cubins;
  std::vector<rc::Buffer> buffers;
  std::vector<rc::Module> modules;
  std::map<std::string, rc::Kernel> kernels;
};

} // namespace

std::unique_ptr<Backend> openDevice(const std::string &cubins) {
  return std::make_unique<DeviceBackend>(cubins);
}

void prebuild(const std::string &cubins, const std::string &architecture, const std::vector<AttentionKernel> &kernels) {
  std::filesystem::create_directories(cubins);
  std::vector<rc::CompileRequest> requests;
  std::vector<std::string> paths;
  for (const AttentionKernel &kernel : kernels) {
    std::string path = cubins + "/" + cubinName(kernel, architecture);
    if (std::filesystem::exists(path))
      continue;
    requests.push_back(requestFor(kernel, architecture));
    paths.push_back(path);
  }
  std::vector<rc::CompileResult> results = rc::Nvrtc::open().compileAll(requests);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].error.empty())
      throw CudaError(results[i].error);
    save(paths[i], results[i].cubin);
  }
}

} // namespace tcc::gpu_attention
