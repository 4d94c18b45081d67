// Which lanes ranks can share out, and which stages of --zero they can have. This header needs no MLIR.
#pragma once
#include "passes/pass_flags.h"

namespace tcc {

/// Why `ranks` ranks cannot share out `lanes` lanes with the stage `zero`: "8 lanes for 3 ranks; …". Empty if they can.
/// With stage 3 each lane gathers parameters, so all ranks must run the same loops over lanes (alikeLanes).
std::string lanesRefusal(int zero, int64_t lanes, int64_t ranks);

/// The last stage that is not refused.
int lastStage(int64_t lanes, int64_t ranks);

} // namespace tcc
