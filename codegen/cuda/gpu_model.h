// Numbers that hold for every NVIDIA GPU. How a kernel is divided and what its text says depend on them. The device
// headers (device/, attention/*.cuh) have their own.
#pragma once

namespace tcc::cuda {

inline constexpr int warpSize = 32;                // threads that run in step
inline constexpr int warpgroupSize = 4 * warpSize; // threads that multiply together on sm_90a
inline constexpr int mostBlockThreads = 1024;      // the most threads of a block
inline constexpr int mostBlockWarps = mostBlockThreads / warpSize;

} // namespace tcc::cuda
