// Tensors to bytes, one step, and back.
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

std::optional<runtime::TensorStorage> allocate(RankedTensorType type, std::string &error) {
  auto storage = runtime::TensorStorage::allocate(byteSize(type));
  if (!storage) {
    error = storage.error().message();
    return std::nullopt;
  }
  if (storage->bytes() > 0)
    std::memset(storage->data(), 0xff, storage->bytes());
  return std::move(*storage);
}

} // namespace

std::unique_ptr<GraphRunner> GraphRunner::load(runtime::Artefact artefact, func::FuncOp function,
                                               const runtime::ExecutableOptions &options, std::string &error) {
  for (runtime::TargetCode &target : artefact.targets)
    runtime::silencePrints(target.plan); // a check prints nothing
  auto executable = runtime::Executable::load(std::move(artefact), options);
  if (!executable) {
    error = "does not load: " + executable.error().message();
    return nullptr;
  }
  auto graph = std::make_unique<GraphRunner>();
  graph->function = function;
  graph->executable = std::move(*executable);
  return graph;
}

std::optional<std::vector<RefTensor>> GraphRunner::run(ArrayRef<RefTensor> arguments, std::string &error) {
  std::vector<runtime::TensorStorage> storage; // of arguments, then of outputs
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> states, outputs;
  storage.reserve(arguments.size() + function.getNumResults());
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    std::optional<runtime::TensorStorage> memory = allocate(argument.type, error);
    if (!memory)
      return std::nullopt;
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
    std::optional<runtime::TensorStorage> memory = allocate(cast<RankedTensorType>(type), error);
    if (!memory)
      return std::nullopt;
    storage.push_back(std::move(*memory));
    outputs.push_back(storage.back().ref());
    whereResultIs.push_back(storage.back().data());
  }
  if (runtime::Error failed = executable->run(inputs, outputs, states)) {
    error = "does not run: " + failed.message();
    return std::nullopt;
  }
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (!updated.contains(i) && !sameBits(argument, readBytes(argument.type, storage[i].data()))) {
      error = "argument " + std::to_string(i) + " was written, and no result updates it";
      return std::nullopt;
    }
  std::vector<RefTensor> results;
  for (auto [type, memory] : llvm::zip_equal(function.getResultTypes(), whereResultIs))
    results.push_back(readBytes(cast<RankedTensorType>(type), memory));
  return results;
}

} // namespace tcc
