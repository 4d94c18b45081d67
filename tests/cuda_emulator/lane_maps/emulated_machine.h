// The emulator as a machine whose lane maps are looked at.
#pragma once

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/lane_maps/lane_maps.h"

#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

namespace tcc::emulator {

class EmulatedLaneMachine : public LaneMapMachine {
public:
  explicit EmulatedLaneMachine(const Schedule &schedule = {}) : schedule(schedule) {}
  std::vector<std::uint32_t> run(const LaneMapLaunch &launch) override {
    auto [answer, fresh] = answers.try_emplace({launch.kernel, launch.mapSwizzle, launch.scalars, launch.inputs});
    if (fresh)
      answer->second = execute(launch);
    return answer->second;
  }

private:
  std::vector<std::uint32_t> execute(const LaneMapLaunch &launch) {
    auto known = modules.find(launch.file);
    if (known == modules.end())
      known = modules.emplace(launch.file, Module::compile(laneKernelText(launch.file))).first;
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    std::vector<void *> pointers;
    auto add = [&](const void *bytes, std::size_t count) {
      buffers.push_back(std::make_unique<DeviceBuffer>(count));
      pointers.push_back(buffers.back()->data());
      if (bytes)
        std::memcpy(pointers.back(), bytes, count);
      else
        std::memset(pointers.back(), 0, count);
    };
    EncodedMap map{};
    if (!launch.mapSizes.empty()) {
      TensorMapRequest request;
      DeviceBuffer *data = (add(launch.mapData.data(), 2 * launch.mapData.size()), buffers.back().get());
      pointers.clear();
      request.address = data->data();
      request.sizes = launch.mapSizes;
      std::uint64_t stride = 2;
      for (std::size_t i = 0; i + 1 < launch.mapSizes.size(); ++i)
        request.strides.push_back(stride *= launch.mapSizes[i]);
      request.box = launch.mapBox;
      request.swizzle = launch.mapSwizzle;
      map = makeTensorMap(request);
    }
    for (const auto &input : launch.inputs)
      add(input.data(), 2 * input.size());
    add(nullptr, launch.outputBytes);
    std::vector<void *> args;
    if (!launch.mapSizes.empty())
      args.push_back(&map);
    for (void *&pointer : pointers)
      args.push_back(&pointer);
    std::vector<int> scalars = launch.scalars;
    for (int &scalar : scalars)
      args.push_back(&scalar);
    LaunchResult result = known->second.launch(launch.kernel, {1}, {static_cast<unsigned>(launch.threads)},
                                               launch.dynamicShared, args.data(), schedule);
    if (!result.ok())
      throw std::runtime_error(launch.kernel + ": " + result.text());
    std::vector<std::uint32_t> words((launch.outputBytes + 3) / 4);
    std::memcpy(words.data(), pointers.back(), launch.outputBytes);
    return words;
  }

  Schedule schedule;
  std::map<std::string, Module> modules;
  // Equal launches give equal answers.
  std::map<std::tuple<std::string, int, std::vector<int>, std::vector<std::vector<std::uint16_t>>>,
           std::vector<std::uint32_t>>
      answers;
};

} // namespace tcc::emulator
