// The machine code of the stand-ins: a header, then the kernel text. In: what NVRTC compiles; out: what the driver
// loads.
#pragma once

#include <string>
#include <vector>

namespace tcc::machine {

struct Cubin {
  /// "sm_90a" of a cubin; "compute_90" of PTX, which any later device takes too.
  std::string architecture;
  std::string text;
  /// Who made it: 13000 is NVRTC 13.0.
  int version = 13000;
  bool isPtx() const { return architecture.rfind("compute_", 0) == 0; }
};

/// Ends with a zero byte, which counts.
std::vector<char> encodeCubin(const Cubin &cubin);
/// Throws std::invalid_argument where the bytes are not what encodeCubin gave. The header says how many there are.
Cubin decodeCubin(const char *bytes);

/// "sm_90a" → 90; 0 of what is not an architecture.
int architectureNumber(const std::string &architecture);
/// Whether a device of this compute capability (10·major + minor) runs it: PTX of a lower one, a cubin of the same
/// major number and no later minor one, a cubin or PTX of an `a` architecture on exactly its own.
bool runsOn(const std::string &architecture, int capability);
/// Whether a driver takes what an NVRTC has made, by their versions: a cubin of its own major version or an older one,
/// PTX of its own version or an older one.
bool isTaken(const Cubin &cubin, int driver);

} // namespace tcc::machine
