// What gemm.cpp and gemm_choice.cpp share: the library opened on a device, and one matmul's descriptors.
#pragma once

#include "runtime/device/cuda/gemm.h"

#include <map>
#include <optional>
#include <vector>

namespace tcc::runtime::cuda {

/// cuBLASLt with a handle; shared by all matmuls.
struct LtSession {
  CublasLt lt;
  Owned<void *> handle;
  const Device *device = nullptr;
  std::map<DType, std::shared_ptr<Buffer>> ones; ///< for biases that are added apart
};

/// For a matmul that takes several calls of the library: the byte offsets of one call.
struct CallOffsets {
  std::int64_t a = 0, b = 0, c = 0;
};

struct Product::Impl {
  enum class Way { nothing, zero, calls };

  std::shared_ptr<LtSession> session;
  GemmDesc desc; ///< C has unit column stride
  Way way = Way::nothing;
  bool swapped = false; ///< whether a and b were swapped, so that C has unit column stride
  /// The descriptors of the library's operation and of its three matrices; its A is our b.
  Owned<void *> operation, layoutA, layoutB, layoutC;
  Algorithm algorithm{};
  std::size_t workspaceBytes = 0;
  std::vector<CallOffsets> offsets;
  ProductPlaces places;
  /// If the library wants an aligned bias: the memory to which the bias is copied first.
  Buffer alignedBias;
  DevicePointer biasSource = 0;
  /// If the library has no algorithm with the bias: the matmul that writes the bias (and the addend) to C, and the ones
  /// that it multiplies the bias by.
  std::unique_ptr<Product> biasRows;
  std::shared_ptr<Buffer> ones;

  void runOnce(const Stream &stream, const CallOffsets &at, const ProductPlaces &from, const Algorithm &with) const;
  void fillZero(const Stream &stream) const;
};

/// Chooses an algorithm for a matmul as Products::make says: the fastest if `timed`, else the first. Nothing where the
/// library suggests none.
std::optional<Algorithm> chooseAlgorithm(const Product::Impl &product, const ProductPromise &promise, bool timed);

/// Whether the library takes the algorithm for this matmul.
bool isTaken(const Product::Impl &product, const Algorithm &algorithm, const ProductPromise &promise);

} // namespace tcc::runtime::cuda
