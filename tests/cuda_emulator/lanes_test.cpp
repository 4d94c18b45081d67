// The emulator's lane maps and swizzles against tables/, which follow the PTX ISA's figures and formulas; the
// comparison itself is shown to see a wrong table; tensor maps follow the driver's rules.
#include "tests/cuda_emulator/lane_maps.h"
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <tuple>

namespace tcc::emulator {
namespace {

class EmulatedMachine : public LaneMapMachine {
public:
  explicit EmulatedMachine(Schedule schedule) : schedule(schedule) {}
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
      known = modules.emplace(launch.file, Module::compile(kernelText(launch.file))).first;
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

std::string joined(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &text : texts)
    all += text + "\n";
  return all;
}

TEST(Lanes, WarpInstructionsFollowTheTables) {
  for (const Schedule &schedule : {testSchedules()[0], testSchedules()[1]}) {
    EmulatedMachine machine(schedule);
    EXPECT_EQ(joined(compareWarpLanes(machine, TCC_EMULATOR_TABLES)), "");
  }
}

TEST(Lanes, HopperInstructionsFollowTheTables) {
  for (const Schedule &schedule : {testSchedules()[0], testSchedules()[4]}) {
    EmulatedMachine machine(schedule);
    EXPECT_EQ(joined(compareHopperLanes(machine, TCC_EMULATOR_TABLES)), "");
  }
}

// Two entries exchanged in each table in turn: the comparison names it.
TEST(Lanes, AWrongTableIsSeen) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) / "wrong_tables";
  EmulatedMachine machine({});
  for (const char *name : {"ldmatrix", "ldmatrix_trans", "mma_m16n8k16_a", "mma_m16n8k16_b", "mma_m16n8k16_d",
                           "wgmma_m64n64_d", "wgmma_m64k16_a", "swizzle_128", "swizzle_64", "swizzle_32"}) {
    fs::remove_all(folder);
    fs::copy(TCC_EMULATOR_TABLES, folder);
    std::ifstream in(folder / (std::string(name) + ".txt"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    // The keys stay, what they map to is exchanged between the first row and the last.
    int keys = std::string(name).rfind("swizzle", 0) == 0 ? 1 : std::string(name).back() == 'd' ? 2 : 3;
    auto split = [&](const std::string &line) {
      std::size_t at = 0;
      for (int i = 0; i < keys; ++i)
        at = line.find(' ', at) + 1;
      return at;
    };
    std::string first = lines[1], last = lines.back();
    lines[1] = first.substr(0, split(first)) + last.substr(split(last));
    lines.back() = last.substr(0, split(last)) + first.substr(split(first));
    std::ofstream out(folder / (std::string(name) + ".txt"));
    for (const std::string &line : lines)
      out << line << "\n";
    out.close();
    bool hopper = std::string(name).rfind("wgmma", 0) == 0 || std::string(name).rfind("swizzle", 0) == 0;
    EXPECT_FALSE((hopper ? compareHopperLanes(machine, folder) : compareWarpLanes(machine, folder)).empty()) << name;
  }
  fs::remove_all(folder);
}

TEST(Lanes, TensorMapsFollowTheDriversRules) {
  DeviceBuffer in(64 * 64 * 2, "in");
  const TensorMapRequest sound{MapElement::Bf16, in.data(), {64, 64}, {128}, {64, 64}, 128};
  EXPECT_NO_THROW(makeTensorMap(sound));
  auto refused = [&](auto change) {
    TensorMapRequest request = sound;
    change(request);
    EXPECT_THROW(makeTensorMap(request), std::invalid_argument);
  };
  refused([](TensorMapRequest &r) { r.address = static_cast<char *>(r.address) + 8; });
  refused([](TensorMapRequest &r) { r.strides[0] = 120; });
  refused([](TensorMapRequest &r) { r.box[1] = 257; });
  refused([](TensorMapRequest &r) { r.box[0] = 128; });
  refused([](TensorMapRequest &r) { r.box[0] = 0; });
  refused([](TensorMapRequest &r) { r.sizes[1] = 0; });
  refused([](TensorMapRequest &r) { r.swizzle = 48; });
  refused([](TensorMapRequest &r) { r.strides.clear(); });
}

} // namespace
} // namespace tcc::emulator
