// Matmuls by cuBLASLt. A GemmDesc becomes descriptors, an algorithm, and calls on a stream. cuBLASLt's
// matrices are column-major. Our row-major C is a column-major C^T = B^T A^T, so the library's A is our b, and its B is
// our a.
#pragma once

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/device.h"
#include "runtime/gemm.h"
#include "runtime/tuning_file.h"

#include <memory>
#include <optional>

namespace tcc::runtime::cuda {

/// Addresses of the operands of one matmul; 0 for those that it does not have.
struct ProductPlaces {
  DevicePointer a = 0, b = 0, c = 0, bias = 0, workspace = 0;
  DevicePointer addend = 0; ///< laid out as c; what a matmul that accumulates adds to; 0: it adds to c itself
  DevicePointer aux = 0;    ///< what GELU was taken of (GemmDesc::geluGradient); laid out and aligned as c
};

/// What a caller promises: each address is a multiple of the number given here (bytes, a power of two, 256 at most),
/// and the workspace has workspaceBytes. The number of `c` holds for addend and aux too.
struct ProductPromise {
  std::uint32_t a = 256, b = 256, c = 256;
  std::size_t workspaceBytes = 0;
  std::uint32_t bias = 256;
};

/// One matmul with its algorithm. It runs when it has been given addresses. Equal inputs give equal bits.
class Product {
public:
  Product(Product &&) noexcept;
  ~Product();

  /// Sets where later runs find their operands.
  void place(const ProductPlaces &places);
  void run(const Stream &stream) const;
  /// How often one run calls the library. It does so several times if two batch dims cannot be treated as one, or if
  /// the bias is added by a matmul of its own.
  std::size_t calls() const;

  struct Impl;

private:
  friend class Products;
  explicit Product(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// cuBLASLt on one device, and the choice of algorithms.
class Products {
public:
  /// Opens the library. `device` must be current, and must outlive this and its matmuls. Throws CudaError if the
  /// library is missing, or if `tuningFile` cannot be read as a tuning file.
  Products(const Device &device, const std::string &tuningFile);
  ~Products();

  /// A matmul whose addresses keep `promise`. If the tuning file has an algorithm for it, that is taken. Otherwise the
  /// library's suggestions are tried, and only those whose two runs on the device give equal bits count: with a tuning
  /// file the fastest is taken, and stands in the file before this returns; without one the first is taken. Where the
  /// library has no algorithm that adds the bias, as for odd strides, the bias is copied to aligned memory, or else
  /// written to C's rows by a matmul of its own, to which this one adds. Throws CudaError naming the matmul: strides
  /// that the library cannot take, a bias of another type than C, no algorithm.
  Product make(const GemmDesc &desc, const ProductPromise &promise);

private:
  /// Nothing where the library has no algorithm.
  std::optional<Product> tryMake(const GemmDesc &desc, const ProductPromise &promise);
  std::optional<Product> tryInTwo(const GemmDesc &desc, const ProductPromise &promise);

  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tcc::runtime::cuda
