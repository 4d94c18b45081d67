#include "codegen/graph_digest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

namespace tcc {

std::string placelessText(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().useLocalScope().assumeVerified());
  return text;
}

std::string hexDigest(llvm::StringRef bytes) {
  llvm::BLAKE3 hasher;
  hasher.update(bytes);
  return llvm::toHex(hasher.final<16>(), /*LowerCase=*/true);
}

std::string graphDigest(mlir::ModuleOp captured, llvm::StringRef products) {
  return hexDigest(placelessText(captured) + products.str());
}

} // namespace tcc
