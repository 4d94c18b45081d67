// Texts and digests that differ for different captured functions.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace tcc {

/// The module as text without the places of its ops in files.
std::string placelessText(mlir::ModuleOp module);

/// BLAKE3, 32 hexadecimal digits.
std::string hexDigest(llvm::StringRef bytes);

/// The digest of a captured module. It is equal for modules that compute the same under the same names. `products` is
/// the element type that matmuls are narrowed to, or empty.
std::string graphDigest(mlir::ModuleOp captured, llvm::StringRef products);

} // namespace tcc
