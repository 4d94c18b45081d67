// Lane maps and swizzles of a machine, emulated or real, against tables/: runs kernels/lanes.cu and wgmma_lanes.cu one
// hot element at a time and says what differs. Needs libstdc++ alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::emulator {

/// One launch of one block: arguments are, in order, the map (if `mapSizes` is not empty), the inputs, the output,
/// the scalars.
struct LaneMapLaunch {
  std::string file, kernel;
  int threads = 32;
  std::size_t dynamicShared = 0;
  /// A bf16 tensor over `mapData`: sizes innermost first, dense; the box's sizes; the swizzle in bytes.
  std::vector<std::uint64_t> mapSizes;
  std::vector<std::uint32_t> mapBox;
  int mapSwizzle = 0;
  std::vector<std::uint16_t> mapData;
  std::vector<std::vector<std::uint16_t>> inputs;
  std::size_t outputBytes = 0;
  std::vector<int> scalars;
};

/// What runs the launches.
class LaneMapMachine {
public:
  virtual ~LaneMapMachine() = default;
  /// The output's bytes as 32-bit words; the output is zero before. Throws when the launch fails.
  virtual std::vector<std::uint32_t> run(const LaneMapLaunch &launch) = 0;
};

/// Each difference between a machine and the tables as one text; empty when they agree. `tables` is the folder.
std::vector<std::string> compareWarpLanes(LaneMapMachine &machine, const std::string &tables);
/// wgmma in all swizzles and both major orders, A from registers, TMA boxes: sm_90a.
std::vector<std::string> compareHopperLanes(LaneMapMachine &machine, const std::string &tables);

} // namespace tcc::emulator
