// The check of custom ops, each alone on random operands:
//   1. The interpreter runs the op's reference, once exactly and once rounding after each op.
//   2. The user's code runs on the same operands, in guarded memory.
//   3. Each element of the code's results must be near the reference's exact or rounded one: within the op's tolerance,
//      relative to the largest magnitude in the result.
#include "codegen/compile_session.h"
#include "codegen/custom.h"
#include "codegen/graph_reference.h"
#include "codegen/op_alone.h"
#include "ir/names.h"
#include "ir/reference/bytes.h"
#include "ir/reference/compare.h"
#include "ir/tensor_bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/custom_call.h"
#include "runtime/memory.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <cstdio>
#include <mutex>
#include <set>

using namespace mlir;

namespace tcc {
namespace {

/// An estimate for both runs of the reference, by the number of elements that they compute.
double secondsToInterpret(CustomOp op) {
  double elements = 0;
  op->walk([&](Operation *inner) {
    for (Value result : inner->getResults())
      elements += static_cast<double>(tensorType(result).getNumElements());
  });
  return 2 * secondsAnElement * elements;
}

/// The op as text, without its place in the source and in the plan: ops with the same text need one check.
std::string keyOf(CustomOp op) {
  Operation *copy = op->clone();
  forgetPlan(copy);
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false).assumeVerified());
  copy->dropAllReferences();
  copy->destroy();
  return text;
}

/// The keys of ops that this process has checked.
class CheckedOps {
public:
  bool contains(const std::string &key) {
    const std::lock_guard lock(mutex);
    return keys.contains(key);
  }
  void add(const std::string &key) {
    const std::lock_guard lock(mutex);
    keys.insert(key);
  }

private:
  std::mutex mutex;
  std::set<std::string> keys;
};

CheckedOps checkedOps;

/// Random operands; if `adversarial`, a quarter of each float operand's elements are zeros and large or tiny numbers.
std::vector<RefTensor> operandsOf(CustomOp op, uint64_t seed, bool adversarial) {
  constexpr double specials[] = {0.0, -0.0, 1.0, 1e4, -1e4, 1e-20};
  std::vector<RefTensor> operands;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    const RankedTensorType type = tensorType(input);
    const bool isFloat = isa<FloatType>(type.getElementType());
    RefTensor tensor = randomTensor(type, seed + i, isFloat ? -1 : 0, isFloat ? 1 : 4);
    for (size_t at = i; adversarial && isFloat && at < tensor.data.size(); at += 4)
      tensor.data[at] = specials[(at / 4) % std::size(specials)];
    roundToElement(tensor);
    operands.push_back(std::move(tensor));
  }
  return operands;
}

std::string indexText(ArrayRef<int64_t> shape, int64_t element) {
  SmallVector<int64_t> index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; element /= shape[dim])
    index[dim] = element % shape[dim];
  return llvm::formatv("[{0}]", llvm::make_range(index.begin(), index.end()));
}

std::string numberText(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// How far an element of a result may be from the reference's: by the op's tolerance, or by a few units in the last
/// place of the result's largest element.
double allowedError(CustomOp op, const RefTensor &exact) {
  double scale = 0;
  for (double value : exact.data)
    if (std::isfinite(value))
      scale = std::max(scale, std::fabs(value));
  const bool isWide = exact.element().isF32();
  const double usual = (isWide ? 64 : 4) * ulpAt(scale, exact.element());
  return op.getTolerance() ? std::max(op.getTolerance()->convertToDouble() * scale, ulpAt(scale, exact.element()))
                           : usual;
}

/// The message about the first wrong element of result `number`; empty if there is none.
std::string difference(CustomOp op, unsigned number, const RefTensor &seen, const RefTensor &exact,
                       const RefTensor &rounded) {
  const double allowed = allowedError(op, exact);
  for (size_t i = 0; i < seen.data.size(); ++i) {
    auto isNear = [&](double wanted) {
      const double value = seen.data[i];
      if (!std::isfinite(wanted) || !std::isfinite(value))
        return (std::isnan(wanted) && std::isnan(value)) || wanted == value;
      return isa<FloatType>(seen.element()) ? std::fabs(value - wanted) <= allowed : value == wanted;
    };
    if (!isNear(exact.data[i]) && !isNear(rounded.data[i]))
      return llvm::formatv("custom op '{0}' is not what its reference says: result {1} at index {2} is {3}, the "
                           "reference gives {4} (random operands; {5} apart are allowed)",
                           op.getCalled(), number, indexText(seen.shape(), static_cast<int64_t>(i)),
                           numberText(seen.data[i]), numberText(exact.data[i]), numberText(allowed))
          .str();
  }
  return {};
}

/// Bytes of tensors, 64-byte aligned.
runtime::Expected<std::vector<runtime::TensorStorage>> memoryFor(TypeRange types) {
  std::vector<runtime::TensorStorage> memory;
  for (Type type : types) {
    auto storage = runtime::TensorStorage::allocate(byteSize(cast<RankedTensorType>(type)));
    if (!storage)
      return storage.error();
    memory.push_back(std::move(*storage));
  }
  return memory;
}

std::vector<char *> addressesOf(const std::vector<runtime::TensorStorage> &memory) {
  std::vector<char *> addresses;
  for (const runtime::TensorStorage &storage : memory)
    addresses.push_back(static_cast<char *>(storage.data()));
  return addresses;
}

/// The results of user code on a CPU.
runtime::Expected<std::vector<RefTensor>> runHere(CustomOp op, ArrayRef<RefTensor> operands) {
  const runtime::CustomCall call = customCall(op);
  auto code = runtime::CustomFunction::find(call);
  if (!code)
    return code.error();
  auto inputs = memoryFor(op.getInputs().getTypes()), outputs = memoryFor(op.getResultTypes());
  if (!inputs || !outputs)
    return (inputs ? outputs : inputs).error();
  for (auto [operand, storage] : llvm::zip_equal(operands, *inputs))
    writeBytes(operand, storage.data());
  if (runtime::Error problem = code->runGuarded(call, addressesOf(*inputs), addressesOf(*outputs)))
    return problem;
  std::vector<RefTensor> results;
  for (auto [result, storage] : llvm::zip_equal(op.getResults(), *outputs))
    results.push_back(readBytes(tensorType(result), storage.data()));
  return results;
}

using RunCode = llvm::function_ref<runtime::Expected<std::vector<RefTensor>>(ArrayRef<RefTensor>)>;

runtime::Error checkOn(CustomOp op, ArrayRef<RefTensor> operands, RunCode run) {
  OwningOpRef<func::FuncOp> function = functionAround(op);
  runtime::Expected<std::vector<RefTensor>> exact = interpret(*function, operands, RefMode::exact);
  if (!exact)
    return exact.error();
  runtime::Expected<std::vector<RefTensor>> rounded = interpret(*function, operands, RefMode::rounding);
  if (!rounded)
    return rounded.error();
  runtime::Expected<std::vector<RefTensor>> seen = run(operands);
  if (!seen)
    return seen.error();
  for (auto [i, result] : llvm::enumerate(*seen))
    if (std::string wrong = difference(op, i, result, (*exact)[i], (*rounded)[i]); !wrong.empty())
      return runtime::Error(std::move(wrong));
  return {};
}

/// Whether the op needs the check and the check is quick enough; a remark says so if it is not.
bool isToBeChecked(CustomOp op, const CustomCheckOptions &options, const std::string &key) {
  if (!options.always && checkedOps.contains(key))
    return false;
  const double seconds = secondsToInterpret(op);
  if (seconds > options.mostSeconds)
    op->emitRemark() << "custom op '" << op.getCalled() << "' is not checked against its reference: that would take "
                     << static_cast<int64_t>(seconds) + 1 << " seconds";
  return seconds <= options.mostSeconds;
}

runtime::Error checkOp(CustomOp op, const CustomCheckOptions &options, const std::string &key, RunCode run) {
  for (bool adversarial : {false, true})
    if (!adversarial || options.always)
      if (runtime::Error wrong = checkOn(op, operandsOf(op, 7 + adversarial, adversarial), run))
        return wrong;
  checkedOps.add(key);
  return {};
}

/// The custom ops that run, those in bodies of cond and repeat included. A custom op's own regions are its reference
/// and its gradient, which do not run.
SmallVector<CustomOp> customOpsOf(func::FuncOp function) {
  SmallVector<CustomOp> found;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto custom = dyn_cast<CustomOp>(op);
    if (custom)
      found.push_back(custom);
    return custom ? WalkResult::skip() : WalkResult::advance();
  });
  return found;
}

} // namespace

runtime::Error checkCustomOps(ModuleOp planned, const CustomCheckOptions &options) {
  auto function = *planned.getOps<func::FuncOp>().begin();
  auto target = planned->getAttrOfType<StringAttr>(targetAttr);
  if (!target || target != "cpu") // other code cannot run here
    return {};
  for (CustomOp op : customOpsOf(function)) {
    const std::string key = keyOf(op);
    auto run = [&](ArrayRef<RefTensor> operands) { return runHere(op, operands); };
    if (op.hasCpuCode() && !op.getUnchecked() && isToBeChecked(op, options, key))
      if (runtime::Error wrong = checkOp(op, options, key, run))
        return wrong;
  }
  return {};
}

runtime::Error checkCustomOpsOn(const std::shared_ptr<runtime::Device> &device, ModuleOp planned,
                                const CompileOptions &options, const CustomCheckOptions &check) {
  auto planFunction = *planned.getOps<func::FuncOp>().begin();
  for (CustomOp op : customOpsOf(planFunction)) {
    const std::string key = "on " + options.targetName + ": " + keyOf(op);
    if (!op.hasTextFor(StringRef(options.targetName).split(':').first) || op.getUnchecked() ||
        !isToBeChecked(op, check, key))
      continue;
    OwningOpRef<func::FuncOp> function = functionAround(op);
    const auto runner = runnerOf(*function, options, device);
    auto run = [&](ArrayRef<RefTensor> operands) { return (*runner)->run(operands); };
    runtime::Error wrong = runner ? checkOp(op, check, key, run) : runner.error();
    if (const std::string name = "'" + op.getCalled().str() + "'"; !StringRef(wrong.message()).contains(name) && wrong)
      wrong = runtime::Error("custom op " + name + " on " + options.targetName + ": " + wrong.message());
    if (wrong)
      return wrong;
  }
  return {};
}

} // namespace tcc
