#include "models/machine_peak.h"
#include "runtime/gemm.h"
#include "runtime/memory.h"
#include "runtime/threads.h"

#include <algorithm>
#include <chrono>

namespace tcc::models {

namespace {

using runtime::DType;
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Values of either sign without pattern, from a small linear congruential generator: products of zeros run faster.
void fillRandom(runtime::TensorStorage &matrix, DType dtype, uint32_t state) {
  auto next = [&] {
    state = state * 1664525 + 1013904223;
    return float(int32_t(state)) * 0x1p-31f;
  };
  if (dtype == DType::f32)
    std::ranges::generate(matrix.as<float>(), next);
  else
    std::ranges::generate(matrix.as<uint16_t>(), [&] { return runtime::floatToBf16(next()); });
}

} // namespace

double measurePeakFlops(int threads, DType dtype, double seconds) {
  constexpr int64_t size = 1024;
  const runtime::MatrixLayout rowMajor{.dtype = dtype, .rowStride = size};
  runtime::GemmDesc desc;
  desc.m = desc.n = desc.k = size;
  desc.a = desc.b = desc.c = rowMajor;
  runtime::ThreadCountScope scope(threads > 0 ? threads : runtime::availableThreads());
  auto product = runtime::Gemm::create(desc, runtime::threadCount());
  auto matrix = [dtype] { return runtime::TensorStorage::allocate(size * size * runtime::byteSize(dtype)); };
  auto a = matrix(), b = matrix(), c = matrix();
  if (!product || !a || !b || !c)
    return 0;
  auto scratch = runtime::TensorStorage::allocate(product->scratchpadBytes());
  if (!scratch)
    return 0;
  fillRandom(*a, dtype, 1);
  fillRandom(*b, dtype, 2);

  double best = 0;
  const Clock::time_point start = Clock::now();
  do {
    const Clock::time_point begin = Clock::now();
    if (product->run(a->data(), b->data(), c->data(), nullptr, scratch->data()))
      return 0;
    best = std::max(best, double(desc.flops()) / secondsSince(begin));
  } while (secondsSince(start) < seconds);
  return best;
}

} // namespace tcc::models
