// Products: matmuls by cuBLASLt. A GemmDesc becomes descriptors, an algorithm, and calls on a stream. cuBLASLt's
// matrices are column-major: a row-major C is a column-major C^T = B^T A^T, so the library's A is our b, and its B is
// our a.
#pragma once

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/device.h"
#include "runtime/gemm.h"
#include "runtime/tuning_file.h"

#include <memory>
#include <optional>

namespace tcc::runtime::cuda {

/// Addresses of one product; 0 for what it does not have.
struct ProductPlaces {
  DevicePointer a = 0, b = 0, c = 0, bias = 0, workspace = 0;
  DevicePointer addend = 0; ///< laid out as c; what a product that accumulates adds to, 0 where that is c itself
  DevicePointer aux = 0;    ///< laid out as c and as aligned
};

/// What a caller promises: the numbers of bytes that addresses are multiples of (powers of two, 256 at most), and the
/// size of the workspace. `c` holds for addend and aux too.
struct ProductPromise {
  std::uint32_t a = 256, b = 256, c = 256;
  std::size_t workspaceBytes = 0;
  std::uint32_t bias = 256;
};

/// One product with its algorithm, ready for its addresses. Equal inputs give equal bits.
class Product {
public:
  Product(Product &&) noexcept;
  ~Product();

  /// Where the next runs find operands. The addresses of bias and aux belong to the descriptor, all
  /// others to the call.
  void place(const ProductPlaces &places);
  void run(const Stream &stream) const;
  /// Calls of the library in one run: more than one where two batch dims are not one, or a bias is added apart.
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
  /// Opens the library; throws CudaError when it is missing or the tuning file is not one. `device` must outlive this
  /// and its products; it is current.
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
