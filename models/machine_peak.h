// The machine's matrix-product rate, measured: what model flops use (MFU) is a share of.
#pragma once
#include "runtime/dtype.h"

namespace tcc::models {

/// Floating-point operations a second of the best of repeated 1024 x 1024 x 1024 products of `dtype` (f32 or bf16) on
/// `threads` threads (0: all), tried for about `seconds`; 0 where the product cannot be made.
double measurePeakFlops(int threads, runtime::DType dtype = runtime::DType::f32, double seconds = 0.2);

} // namespace tcc::models
