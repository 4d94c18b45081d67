// NVRTC for tests that are skipped without it.
#pragma once
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/error.h"

namespace tcc::test {

/// This machine's NVRTC, or why there is none.
inline runtime::Expected<runtime::cuda::Nvrtc> openedNvrtc() {
  try {
    return runtime::cuda::Nvrtc::open();
  } catch (const runtime::CudaError &missing) {
    return runtime::Error(missing.what());
  }
}

} // namespace tcc::test
