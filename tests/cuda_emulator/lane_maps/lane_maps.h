// Lane maps and swizzles of a machine, emulated or real, against tables/: runs kernels/lanes.cu and wgmma_lanes.cu one
// hot element at a time and says what differs, or writes down what the machine does. Needs libstdc++ alone; tables and
// kernel texts are embedded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tcc::emulator {

/// One launch of one block: arguments are, in order, the map (if `mapSizes` is not empty), the inputs, the output,
/// the scalars.
struct LaneMapLaunch {
  /// One of laneKernelFiles().
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

/// The texts of tables/*.txt by name ("ldmatrix", "swizzle_128").
using LaneTables = std::map<std::string, std::string>;

/// The repository's tables, as they were when the program was built.
const LaneTables &repositoryTables();
/// Those of a folder; throws std::runtime_error when there are none.
LaneTables readTables(const std::string &folder);
/// Makes the folder and writes one file a table; throws std::runtime_error when it cannot.
void writeTables(const LaneTables &tables, const std::string &folder);

/// "lanes.cu" (portable), "wgmma_lanes.cu" (the wgmma prelude, sm_90a).
std::vector<std::string> laneKernelFiles();
const std::string &laneKernelText(const std::string &file);

/// Each difference between a machine and the tables as one text; empty when they agree.
std::vector<std::string> compareWarpLanes(LaneMapMachine &machine, const LaneTables &tables);
/// wgmma in all swizzles and both major orders, A from registers, TMA boxes: sm_90a.
std::vector<std::string> compareHopperLanes(LaneMapMachine &machine, const LaneTables &tables);

/// The tables that a machine's own answers give; no table is read. Names of rows and k follow from memory through
/// ldmatrix and, for wgmma, from unswizzled core matrices. Throws std::runtime_error where answers contradict each
/// other.
LaneTables recordWarpLanes(LaneMapMachine &machine);
LaneTables recordHopperLanes(LaneMapMachine &machine);

} // namespace tcc::emulator
