// The CUDA device: launches through the driver.
#include "cubins.h"
#include "runtime/device/cuda/device.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using runtime::CudaError;
namespace rc = runtime::cuda;

namespace {

/// A bf16 or f16 tensor as the driver's map: sizes innermost first, strides in bytes, swizzle of 0, 32, 64 or 128
/// bytes.
rc::TensorMap encodeMap(const rc::Driver &driver, void *address, std::span<const unsigned long long> sizes,
                        std::span<const unsigned long long> strides, std::span<const unsigned> box, int swizzle) {
  if (!driver.encodeTensorMap)
    throw CudaError("the driver has no cuTensorMapEncodeTiled: version 12.0 or later is needed");
  rc::TensorMapValue swizzleValue = swizzle == 128  ? rc::mapSwizzle128
                                    : swizzle == 64 ? rc::mapSwizzle64
                                    : swizzle == 32 ? rc::mapSwizzle32
                                                    : rc::mapSwizzleNone;
  std::vector<std::uint64_t> extents(sizes.begin(), sizes.end());
  std::vector<std::uint64_t> bytes(strides.begin(), strides.end());
  std::vector<std::uint32_t> boxes(box.begin(), box.end());
  std::vector<std::uint32_t> steps(box.size(), 1);
  // The driver wants the map at a multiple of 64 bytes, which g++ does not give every value returned on the stack.
  auto map = std::make_unique<rc::TensorMap>();
  driver.check(driver.encodeTensorMap(map.get(), rc::mapElement16, std::uint32_t(sizes.size()), address, extents.data(),
                                      bytes.data(), boxes.data(), steps.data(), 0, swizzleValue, rc::mapPromote128, 0),
               "encoding a tensor map");
  return *map;
}

std::string lineOf(const std::string &text, unsigned number) {
  std::istringstream in(text);
  std::string line;
  for (unsigned i = 0; i < number && std::getline(in, line); ++i) {
  }
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

class DeviceBackend : public Backend {
public:
  explicit DeviceBackend(std::string cubins)
      : device(rc::Device::open()), stream(device->makeStream()), probe(device->allocatePinned(8 * 4)),
        cubins(std::move(cubins)) {
    std::fill(record().begin(), record().end(), 0u);
  }

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

  std::function<void()> prepare(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch,
                                Build build) override {
    struct Launch {
      AttentionArguments arguments;
      std::vector<rc::TensorMap> maps;
      rc::LaunchShape shape;
    };
    auto launch = std::make_shared<Launch>();
    launch->arguments = arguments;
    for (const AttentionMap &map : attentionMaps(kernel, arguments, batch))
      launch->maps.push_back(encodeMap(device->driver(), map.address, map.sizes, map.strides, map.box, 128));
    launch->shape.grid = attentionGrid(kernel, arguments, batch, device->attribute(rc::attributeMultiprocessors));
    launch->shape.block = {unsigned(kernel.threads), 1, 1};
    launch->shape.sharedBytes = unsigned(kernel.sharedBytes);
    const rc::Kernel &code =
        loaded(requestFor(kernel, build, architecture()), kernel.name, unsigned(kernel.sharedBytes));
    std::string probedText = build == Build::Probe ? kernel.text : "";
    return [this, launch, &code, probedText] {
      std::vector<void *> pointers = {&launch->arguments};
      for (rc::TensorMap &map : launch->maps)
        pointers.push_back(&map);
      code.launch(stream, launch->shape, pointers);
      if (!probedText.empty())
        finishProbed(code.name(), probedText);
    };
  }
  void finish() override { stream.synchronize(); }

  std::vector<std::uint32_t> run(const emulator::LaneMapLaunch &launch) override {
    std::vector<std::uint32_t> words((launch.outputBytes + 3) / 4);
    std::vector<rc::Buffer> owned;
    auto upload = [&](const void *from, std::size_t bytes) {
      owned.push_back(device->allocate(bytes));
      stream.copyToDevice(owned.back().address(), from, bytes);
      return owned.back().address();
    };
    rc::TensorMap map;
    std::vector<void *> pointers;
    if (!launch.mapSizes.empty()) {
      std::vector<unsigned long long> sizes(launch.mapSizes.begin(), launch.mapSizes.end()), strides;
      for (unsigned long long stride = 2; strides.size() + 1 < sizes.size();)
        strides.push_back(stride *= sizes[strides.size()]);
      void *data = reinterpret_cast<void *>(upload(launch.mapData.data(), 2 * launch.mapData.size()));
      map = encodeMap(device->driver(), data, sizes, strides, launch.mapBox, launch.mapSwizzle);
      pointers.push_back(&map);
    }
    std::vector<rc::DevicePointer> addresses;
    for (const std::vector<std::uint16_t> &input : launch.inputs)
      addresses.push_back(upload(input.data(), 2 * input.size()));
    addresses.push_back(upload(words.data(), 4 * words.size()));
    for (rc::DevicePointer &address : addresses)
      pointers.push_back(&address);
    std::vector<int> scalars = launch.scalars;
    for (int &scalar : scalars)
      pointers.push_back(&scalar);
    loaded(requestForLanes(launch.file, architecture()), launch.kernel, unsigned(launch.dynamicShared))
        .launch(stream, {.block = {unsigned(launch.threads), 1, 1}, .sharedBytes = unsigned(launch.dynamicShared)},
                pointers);
    finishProbed(launch.kernel, emulator::laneKernelText(launch.file));
    read(words.data(), reinterpret_cast<void *>(addresses.back()), 4 * words.size());
    return words;
  }

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
  int registers(const AttentionKernel &kernel) override {
    rc::CompileRequest request = requestFor(kernel, Build::Plain, architecture());
    return loaded(request, kernel.name, unsigned(kernel.sharedBytes)).registers();
  }

  double copySpeed(std::size_t bytes) override {
    rc::Buffer from = device->allocate(bytes);
    rc::Buffer to = device->allocate(bytes);
    auto copy = [&] { stream.copyOnDevice(to.address(), from.address(), bytes); };
    time(3, copy);
    constexpr int repeats = 20;
    return 2.0 * double(bytes) * repeats / time(repeats, copy);
  }

private:
  struct Loaded {
    rc::Module module;
    std::map<std::string, rc::Kernel> kernels;
  };

  std::span<std::uint32_t> record() { return probe.as<std::uint32_t>(); }

  rc::Kernel &loaded(const rc::CompileRequest &request, const std::string &name, unsigned sharedBytes) {
    auto [entry, fresh] = modules.try_emplace({request.text, isProbe(request)});
    Loaded &found = entry->second;
    if (fresh) {
      found.module = device->load(cubinFor(request, cubins));
      if (isProbe(request)) {
        rc::DevicePointer address = probe.deviceAddress();
        stream.copyToDevice(found.module.global("barrier_probe", sizeof address), &address, sizeof address);
        stream.synchronize();
      }
    }
    auto kernel = found.kernels.find(name);
    if (kernel == found.kernels.end())
      kernel = found.kernels.emplace(name, found.module.kernel(name, sharedBytes)).first;
    return kernel->second;
  }

  /// Waits, and says which barrier wait gave up if one did.
  void finishProbed(const std::string &name, const std::string &text) {
    try {
      stream.synchronize();
    } catch (const CudaError &error) {
      std::span<std::uint32_t> at = record();
      if (at[0] == 0)
        throw CudaError(name + ": " + error.what());
      std::ostringstream where;
      where << name << ": a barrier wait gave up in block (" << at[1] << ", " << at[2] << ", " << at[3] << "), thread "
            << at[4] << ", at line " << at[5] << " `" << lineOf(text, at[5]) << "`: the barrier at shared address "
            << at[6] << " did not complete the phase of parity " << at[7];
      throw CudaError(where.str());
    }
  }

  std::unique_ptr<rc::Device> device;
  rc::Stream stream;
  rc::PinnedBuffer probe;
  std::string cubins;
  std::vector<rc::Buffer> buffers;
  std::map<std::pair<std::string, bool>, Loaded> modules;
};

} // namespace

std::unique_ptr<Backend> openDevice(const std::string &cubins) {
  return std::make_unique<DeviceBackend>(cubins);
}

} // namespace tcc::gpu_attention
