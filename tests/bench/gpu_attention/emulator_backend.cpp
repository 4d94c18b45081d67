// The emulator in the device's place: the same texts and launches, checked; times are the emulator's own and mean
// nothing.
#include "backend.h"

#include "tests/cuda_emulator/lane_maps/emulated_machine.h"

namespace tcc::gpu_attention {

using namespace tcc::cuda;

namespace {

class EmulatorBackend : public Backend {
public:
  explicit EmulatorBackend(std::string architecture) : target(std::move(architecture)) {}
  std::string name() const override { return "emulator"; }
  std::string architecture() const override { return target; }
  void *allocate(std::size_t bytes) override {
    buffers.push_back(std::make_unique<emulator::DeviceBuffer>(std::max<std::size_t>(bytes, 1)));
    return buffers.back()->data();
  }
  void releaseAll() override { buffers.clear(); }
  void write(void *to, const void *from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void *to, const void *from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

  std::function<void()> prepare(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch,
                                Build) override {
    auto [x, y, z] = attentionGrid(kernel, arguments, batch, 3);
    emulator::Dim3 grid = {x, y, z};
    if (x == 0 || y == 0 || z == 0)
      return [] {};
    std::vector<emulator::EncodedMap> maps;
    for (const AttentionMap &map : attentionMaps(kernel, arguments, batch)) {
      emulator::TensorMapRequest request;
      request.address = map.address;
      request.sizes.assign(map.sizes.begin(), map.sizes.end());
      request.strides.assign(map.strides.begin(), map.strides.end());
      request.box.assign(map.box.begin(), map.box.end());
      maps.push_back(emulator::makeTensorMap(request));
    }
    auto found = modules.find(kernel.text);
    if (found == modules.end())
      found = modules.emplace(kernel.text, emulator::Module::compile(kernel.text)).first;
    const emulator::Module &module = found->second;
    return [this, &module, grid, copy = AttentionArguments(arguments), maps, name = kernel.name,
            threads = unsigned(kernel.threads), shared = std::size_t(kernel.sharedBytes)]() mutable {
      std::vector<void *> pointers = {&copy};
      for (emulator::EncodedMap &map : maps)
        pointers.push_back(&map);
      emulator::LaunchResult result = module.launch(name, grid, {threads, 1, 1}, shared, pointers.data(), {});
      seconds += result.seconds;
      if (!result.ok())
        throw std::runtime_error(name + ": " + result.text());
    };
  }
  void finish() override {}
  double time(int repeats, const std::function<void()> &work) override {
    double before = seconds;
    for (int i = 0; i < repeats; ++i)
      work();
    return seconds - before;
  }
  int registers(const AttentionKernel &) override { return 0; }
  double copySpeed(std::size_t) override { return 1e9; }
  std::vector<std::uint32_t> run(const emulator::LaneMapLaunch &launch) override { return lanes.run(launch); }

private:
  std::string target;
  double seconds = 0;
  emulator::EmulatedLaneMachine lanes;
  std::vector<std::unique_ptr<emulator::DeviceBuffer>> buffers;
  std::map<std::string, emulator::Module> modules;
};

} // namespace

std::unique_ptr<Backend> openEmulator(const std::string &architecture) {
  return std::make_unique<EmulatorBackend>(architecture);
}

} // namespace tcc::gpu_attention
