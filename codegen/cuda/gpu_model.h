// Numbers that all NVIDIA GPUs share and on which the division of kernels and their text depend. Device headers
// (device/, attention/*.cuh) have their own.
#pragma once

namespace tcc::cuda {

inline constexpr int warpSize = 32;                // threads that run in step
inline constexpr int warpgroupSize = 4 * warpSize; // that multiply together on sm_90a
inline constexpr int mostBlockThreads = 1024;      // of a block
inline constexpr int mostBlockWarps = mostBlockThreads / warpSize;

} // namespace tcc::cuda
