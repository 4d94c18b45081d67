// The switches of the compiler that are on for a step, as the options that switch them off: the one list of
// `tcc --ablate` and `train_gpt --ablate`. No MLIR.
#pragma once
#include "frontend/compiler_flags.h"

#include <string>
#include <vector>

namespace tcc {

/// An option for each switch that is on under these flags for a target (codegen/targets.h): -fno-<pass> for each pass
/// of the pipeline that runs and may be left out, in its order, or the option by which users know such a pass
/// (--dtype=f32, --remat=none); then -O1, -fno-fast-math and their kin; last -O0, which is without all of them. Each
/// option works if it is appended to the command line. Throws Error for an unknown target.
std::vector<std::string> switchesOff(const CompilerFlags &flags, const std::string &targetName);

/// The option that switches everything off; it stands for no single switch.
inline constexpr const char *everythingOff = "-O0";

/// `flags` with one of these options after them.
CompilerFlags withOption(CompilerFlags flags, const std::string &option);

} // namespace tcc
