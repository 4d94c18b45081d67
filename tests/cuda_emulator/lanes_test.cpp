// The emulator's lane maps and swizzles against tables/, which follow the PTX ISA's figures and formulas; the
// comparison itself is shown to see a wrong table; tensor maps follow the driver's rules.
#include "tests/cuda_emulator/lane_maps/emulated_machine.h"
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tcc::emulator {
namespace {

std::string joined(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &text : texts)
    all += text + "\n";
  return all;
}

TEST(Lanes, WarpInstructionsFollowTheTables) {
  for (const Schedule &schedule : {testSchedules()[0], testSchedules()[1]}) {
    EmulatedLaneMachine machine(schedule);
    EXPECT_EQ(joined(compareWarpLanes(machine, repositoryTables())), "");
  }
}

TEST(Lanes, HopperInstructionsFollowTheTables) {
  for (const Schedule &schedule : {testSchedules()[0], testSchedules()[4]}) {
    EmulatedLaneMachine machine(schedule);
    EXPECT_EQ(joined(compareHopperLanes(machine, repositoryTables())), "");
  }
}

// What the machine's own answers give, without a look at any table, is the repository's tables byte for byte, and
// survives the way through files.
TEST(Lanes, RecordedTablesAreTheRepositorys) {
  EmulatedLaneMachine machine;
  LaneTables recorded = recordWarpLanes(machine);
  recorded.merge(recordHopperLanes(machine));
  EXPECT_EQ(recorded.size(), repositoryTables().size());
  for (const auto &[name, text] : repositoryTables())
    EXPECT_TRUE(recorded[name] == text) << name << ":\n" << recorded[name].substr(0, 400);
  std::string folder = testing::TempDir() + "/recorded_lane_tables";
  writeTables(recorded, folder);
  EXPECT_EQ(readTables(folder), repositoryTables());
  EXPECT_THROW(readTables(folder + "/none"), std::runtime_error);
  std::filesystem::remove_all(folder);
}

/// A machine that answers as the emulator does, but for one output word of one kernel.
class LyingMachine : public LaneMapMachine {
public:
  LyingMachine(LaneMapMachine &honest, std::string kernel, std::size_t word, std::uint32_t flipped)
      : honest(honest), kernel(std::move(kernel)), word(word), flipped(flipped) {}
  std::vector<std::uint32_t> run(const LaneMapLaunch &launch) override {
    std::vector<std::uint32_t> words = honest.run(launch);
    if (launch.kernel == kernel)
      words.at(word) ^= flipped;
    return words;
  }

private:
  LaneMapMachine &honest;
  std::string kernel;
  std::size_t word;
  std::uint32_t flipped;
};

TEST(Lanes, AWrongMachineIsSeen) {
  EmulatedLaneMachine machine;
  for (auto [kernel, word, flipped] : {std::tuple{"ldmatrix_lanes", 5, 1u},
                                       {"ldmatrix_lanes", 200, 1u},
                                       {"mma_lanes", 0, 1u},
                                       {"wgmma_lanes", 70, 32u},
                                       {"wgmma_register_lanes", 9, 2u},
                                       {"box_lanes", 40, 3u}}) {
    LyingMachine lying(machine, kernel, static_cast<std::size_t>(word), flipped);
    bool hopper = std::string(kernel) == "box_lanes" || std::string(kernel).rfind("wgmma", 0) == 0;
    EXPECT_FALSE((hopper ? compareHopperLanes : compareWarpLanes)(lying, repositoryTables()).empty()) << kernel;
    try {
      LaneTables recorded = hopper ? recordHopperLanes(lying) : recordWarpLanes(lying);
      bool same = true;
      for (const auto &[name, text] : recorded)
        same &= text == repositoryTables().at(name);
      EXPECT_FALSE(same) << kernel;
    } catch (const std::runtime_error &contradiction) {
      EXPECT_EQ(std::string(contradiction.what()).rfind("lane maps cannot be recorded", 0), 0u);
    }
  }
}

// Two entries exchanged in each table in turn: the comparison names it.
TEST(Lanes, AWrongTableIsSeen) {
  EmulatedLaneMachine machine;
  for (const auto &[name, text] : repositoryTables()) {
    LaneTables tables = repositoryTables();
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    // The keys stay, what they map to is exchanged between the first row and the last.
    bool hopper = name.rfind("wgmma", 0) == 0 || name.rfind("swizzle", 0) == 0;
    int keys = name.rfind("swizzle", 0) == 0 ? 1 : name.back() == 'd' ? 2 : 3;
    auto split = [&](const std::string &line) {
      std::size_t at = 0;
      for (int i = 0; i < keys; ++i)
        at = line.find(' ', at) + 1;
      return at;
    };
    std::string first = lines[1], last = lines.back();
    lines[1] = first.substr(0, split(first)) + last.substr(split(last));
    lines.back() = last.substr(0, split(last)) + first.substr(split(first));
    std::string wrong;
    for (const std::string &line : lines)
      wrong += line + "\n";
    tables[name] = wrong;
    EXPECT_FALSE((hopper ? compareHopperLanes : compareWarpLanes)(machine, tables).empty()) << name;
  }
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
