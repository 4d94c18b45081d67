// Whether all 32 lanes of a warp reach each collective of compiled kernels. In: PTX as NVRTC writes it; out: a line for
// each collective that only some lanes may reach. On a device such a warp waits for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tcc::test {

/// Whether a PTX instruction, or a CUDA intrinsic, needs all lanes of a warp: shuffles, votes, barriers, matrix
/// instructions, register hand-over.
bool isCollectiveInstruction(std::string_view opcode);
bool isCollectiveIntrinsic(std::string_view name);

/// "kernel: line 41: `shfl.sync.idx.b32` is reached by some lanes alone, after `@%p3 bra $L__BB0_5` in line 30".
/// Sound and cautious: a branch counts as one that splits a warp unless its condition is shown to be the same in all
/// lanes. Throws std::runtime_error for text that it does not understand.
std::vector<std::string> divergentCollectives(const std::string &ptx);

} // namespace tcc::test
