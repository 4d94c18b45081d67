// Matmuls of other libraries, which are opened at run time or, as oneDNN, linked where they are there.
#pragma once
#include "runtime/error.h"
#include "tests/bench/products/shapes.h"
#include <functional>
#include <memory>

namespace tcc::bench {

/// C = A·B over memory of the sizes and layouts of a GemmDesc.
using Run = std::function<void(const void *a, const void *b, void *c)>;

class Library {
public:
  virtual ~Library() = default;
  virtual const std::string &name() const = 0;
  /// Nothing where the library has no such matmul.
  virtual Run matmul(const Shape &shape, runtime::DType dtype) = 0;
};

/// oneDNN's matmul primitive; null where this program was built without it.
std::unique_ptr<Library> linkedOneDnn();

/// A shared library's matmuls of f32. It is one of the names by which a BLAS (cblas_sgemm, scipy_cblas_sgemm64_, SGEMM,
/// sgemm_) or oneDNN (dnnl_sgemm) has it. Errors: it cannot be opened, or has none of the names.
runtime::Expected<std::unique_ptr<Library>> openLibrary(const std::string &name, const std::string &file);

} // namespace tcc::bench
