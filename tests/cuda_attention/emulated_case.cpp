// Buffers and launches of a case in the emulator.
#include "emulated_case.h"

#include <cstring>
#include <map>

namespace tcc::attention_test {

using namespace tcc::cuda;

AttentionKernel kernelOf(const Problem &problem, AttentionPass pass, const char *architecture, const Change &change) {
  AttentionCase of = caseOf(problem, pass);
  AttentionTiles tiles = *chooseAttention(of, architecture, problem.keys);
  if (change) {
    if (tiles.path == AttentionPath::Hopper) {
      const bool narrow = of.headDim == 64, forward = pass == AttentionPass::Forward;
      tiles = {AttentionPath::Hopper, 8, 1, forward || (narrow && pass == AttentionPass::BackwardQuery) ? 128 : 64};
      tiles.stages = narrow && forward ? 4 : 2;
    }
    change(tiles);
  }
  return *attentionKernel(of, tiles);
}

const emulator::Module &moduleOf(const AttentionKernel &kernel) {
  static std::map<std::string, emulator::Module> modules;
  auto found = modules.find(kernel.text);
  if (found == modules.end())
    found = modules.emplace(kernel.text, emulator::Module::compile(kernel.text)).first;
  return found->second;
}

Memory::Memory(const Problem &problem, bool packed, const Inputs &inputs) : problem(problem), packed(packed) {
  const std::vector<double> *contents[tensorCount] = {&inputs.query, &inputs.key, &inputs.value, nullptr,
                                                      &inputs.outputGradient};
  const char *names[tensorCount] = {"query",          "key",           "value",       "output",
                                    "outputGradient", "queryGradient", "keyGradient", "valueGradient"};
  void *bases[tensorCount];
  for (int i = 0; i < tensorCount; ++i) {
    Place place = placeOf(problem, Tensor(i), packed);
    tensors[i] = std::make_unique<emulator::DeviceBuffer>(place.elements * 2, names[i]);
    bases[i] = tensors[i]->data();
    if (contents[i])
      std::memcpy(bases[i], scatter(problem, place, *contents[i]).data(), place.elements * 2);
  }
  arguments = argumentsOf(problem, packed, bases);
  std::size_t rows = std::size_t(problem.batch) * problem.heads * problem.queries;
  std::size_t padded = std::size_t(attentionWorkspace(arguments, problem.batch));
  logSumExp = std::make_unique<emulator::DeviceBuffer>(rows * 4, "logSumExp");
  rowShift = std::make_unique<emulator::DeviceBuffer>(padded * 4, "rowShift");
  rowDelta = std::make_unique<emulator::DeviceBuffer>(padded * 4, "rowDelta");
  seed = std::make_unique<emulator::DeviceBuffer>(12, "seed and first");
  std::memcpy(seed->data(), problem.seed, 8);
  std::memcpy(seed->as<unsigned>() + 2, &problem.first, 4);
  if (!inputs.bias.empty()) {
    bias = std::make_unique<emulator::DeviceBuffer>(inputs.bias.size() * 4, "bias");
    std::memcpy(bias->data(), inputs.bias.data(), inputs.bias.size() * 4);
    arguments.bias = bias->as<float>();
  }
  arguments.logSumExp = logSumExp->as<float>();
  arguments.rowShift = rowShift->as<float>();
  arguments.rowDelta = rowDelta->as<float>();
  arguments.seedLow = seed->as<unsigned>();
  arguments.seedHigh = seed->as<unsigned>() + 1;
  arguments.first = seed->as<int>() + 2;
}

std::vector<double> Memory::read(Tensor tensor) {
  return gather(problem, placeOf(problem, tensor, packed), at(tensor).as<std::uint16_t>());
}

/// The kernel's arguments after the structure: its tensor maps, as the driver would encode them.
static std::vector<emulator::EncodedMap> encodedMaps(const AttentionKernel &kernel, const Memory &memory) {
  std::vector<emulator::EncodedMap> encoded;
  for (const AttentionMap &map : attentionMaps(kernel, memory.arguments, memory.problem.batch)) {
    emulator::TensorMapRequest request;
    request.element =
        kernel.of.element == AttentionElement::Bf16 ? emulator::MapElement::Bf16 : emulator::MapElement::F16;
    request.address = map.address;
    request.sizes.assign(map.sizes.begin(), map.sizes.end());
    request.strides.assign(map.strides.begin(), map.strides.end());
    request.box.assign(map.box.begin(), map.box.end());
    encoded.push_back(emulator::makeTensorMap(request));
  }
  return encoded;
}

emulator::LaunchResult launchOnce(Memory &memory, const AttentionKernel &kernel, const emulator::Schedule &schedule,
                                  const emulator::Module *module) {
  auto [x, y, z] = attentionGrid(kernel, memory.arguments, memory.problem.batch, 3);
  std::vector<emulator::EncodedMap> maps = encodedMaps(kernel, memory);
  std::vector<void *> pointers = {&memory.arguments};
  for (emulator::EncodedMap &map : maps)
    pointers.push_back(&map);
  const emulator::Module &compiled = module ? *module : moduleOf(kernel);
  return compiled.launch(kernel.name, {x, y, z}, {unsigned(kernel.threads), 1, 1}, kernel.sharedBytes, pointers.data(),
                         schedule);
}

} // namespace tcc::attention_test
