// What people call a kernel and its parts, from locations and labels.
#include "ir/analyze_kernel.h"

using namespace mlir;

namespace tcc {

static std::string sourceLine(Location loc) {
  std::string text;
  loc->walk([&](Location part) {
    auto file = dyn_cast<FileLineColLoc>(part);
    if (!file)
      return WalkResult::advance();
    text = file.getFilename().str() + ":" + std::to_string(file.getLine());
    return WalkResult::interrupt();
  });
  return text;
}

static std::string valueName(Location loc) {
  auto named = dyn_cast<NameLoc>(loc);
  return named ? named.getName().str() : "";
}

KernelNames kernelNames(KernelOp kernel, ArrayRef<Operation *> origins) {
  KernelNames names;
  names.label = kernel.getLabel().value_or("kernel").str();
  DenseMap<Operation *, int> numbers;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    numbers.try_emplace(&op, names.ops.size());
    names.ops.push_back({op.getName().stripDialect().str(), sourceLine(op.getLoc()), valueName(op.getLoc())});
  }
  for (Operation *op : origins)
    names.ofNode.push_back(op ? numbers.lookup(op) : -1);
  return names;
}

} // namespace tcc
