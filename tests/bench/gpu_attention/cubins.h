// Kernel texts to machine code: by NVRTC, or from a folder where they were put before.
#pragma once

#include "backend.h"
#include "runtime/device/cuda/nvrtc.h"

namespace tcc::gpu_attention {

/// A text with its prelude and build, for NVRTC.
runtime::cuda::CompileRequest requestFor(const cuda::AttentionKernel &kernel, Build build,
                                         const std::string &architecture);
/// One of laneKernelFiles(); wgmma's are probe builds.
runtime::cuda::CompileRequest requestForLanes(const std::string &file, const std::string &architecture);

/// Whether the build sets `barrier_probe`: kernels without mbarriers have one build.
bool isProbe(const runtime::cuda::CompileRequest &request);

/// The machine code, from `folder` if it is there, else made and, unless `folder` is empty, kept.
std::vector<char> cubinFor(const runtime::cuda::CompileRequest &request, const std::string &folder);

/// Makes what the folder lacks, in parallel; throws runtime::CudaError for the first that fails.
void makeCubins(const std::vector<runtime::cuda::CompileRequest> &requests, const std::string &folder);

} // namespace tcc::gpu_attention
