// What people call a kernel and its parts, from locations and labels.
#include "ir/analyze_kernel.h"
#include "ir/names.h"

using namespace mlir;

namespace tcc {

static std::string sourceLine(Location loc) {
  FileLineColLoc place = sourceOf(loc);
  return place ? place.getFilename().str() + ":" + std::to_string(place.getLine()) : "";
}

KernelNames kernelNames(KernelOp kernel, ArrayRef<Operation *> origins) {
  KernelNames names;
  names.label = kernel.getLabel().value_or("kernel").str();
  names.work = workOf(kernel.getBody().front());
  DenseMap<Operation *, int> numbers;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    numbers.try_emplace(&op, names.ops.size());
    names.ops.push_back({op.getName().stripDialect().str(), sourceLine(op.getLoc()), nameOf(op.getLoc()).str()});
  }
  for (Operation *op : origins)
    names.ofNode.push_back(op ? numbers.lookup(op) : -1);
  return names;
}

} // namespace tcc
