// Writes tensors as bytes, runs one step, and reads the results back.
#include "codegen/graph_runner.h"
#include "ir/reference/bytes.h"
#include "ir/reference/compare.h"
#include "passes/memory_places.h"
#include "runtime/printed.h"
#include "llvm/ADT/DenseSet.h"
#include <cstring>

using namespace mlir;

namespace tcc {
namespace {

runtime::Expected<runtime::TensorStorage> allocate(RankedTensorType type) {
  auto storage = runtime::TensorStorage::allocate(byteSize(type));
  if (storage && storage->bytes() > 0)
    std::memset(storage->data(), 0xff, storage->bytes());
  return storage;
}

} // namespace

runtime::Expected<std::unique_ptr<GraphRunner>> GraphRunner::load(runtime::Artefact artefact, func::FuncOp function,
                                                                  const runtime::ExecutableOptions &options) {
  for (runtime::TargetCode &target : artefact.targets)
    runtime::silencePrints(target.plan); // a check prints nothing
  auto executable = runtime::Executable::load(std::move(artefact), options);
  if (!executable)
    return runtime::Error("does not load: " + executable.error().message());
  auto graph = std::make_unique<GraphRunner>();
  graph->function = function;
  graph->executable = std::move(*executable);
  return graph;
}

runtime::Expected<std::vector<RefTensor>> GraphRunner::run(ArrayRef<RefTensor> arguments) {
  std::vector<runtime::TensorStorage> storage; // of arguments, then of outputs
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> states, outputs;
  storage.reserve(arguments.size() + function.getNumResults());
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    auto memory = allocate(argument.type);
    if (!memory)
      return memory.error();
    writeBytes(argument, memory->data());
    storage.push_back(std::move(*memory));
    if (function.getArgAttr(i, stateAttr))
      states.push_back(storage.back().ref());
    else
      inputs.push_back(storage.back().ref());
  }
  SignaturePlaces signature(function);
  std::vector<const void *> whereResultIs;
  llvm::DenseSet<unsigned> updated;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    if (BlockArgument state = signature.updated(i)) {
      updated.insert(state.getArgNumber());
      whereResultIs.push_back(storage[state.getArgNumber()].data());
      continue;
    }
    auto memory = allocate(cast<RankedTensorType>(type));
    if (!memory)
      return memory.error();
    storage.push_back(std::move(*memory));
    outputs.push_back(storage.back().ref());
    whereResultIs.push_back(storage.back().data());
  }
  if (runtime::Error failed = executable->run(inputs, outputs, states))
    return runtime::Error("does not run: " + failed.message());
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (!updated.contains(i) && !sameBits(argument, readBytes(argument.type, storage[i].data())))
      return runtime::Error("argument " + std::to_string(i) + " was written, and no result updates it");
  std::vector<RefTensor> results;
  for (auto [type, memory] : llvm::zip_equal(function.getResultTypes(), whereResultIs))
    results.push_back(readBytes(cast<RankedTensorType>(type), memory));
  return results;
}

} // namespace tcc
