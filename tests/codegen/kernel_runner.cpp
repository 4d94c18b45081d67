#include "kernel_runner.h"
#include "mlir/Parser/Parser.h"
#include "llvm/TargetParser/Host.h"
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace tcc::test {
namespace {

//===- memory --------------------------------------------------------------------------------------------------===//

int64_t elementBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

/// A tensor as bytes, with a guard pattern behind it.
struct Buffer {
  static constexpr size_t guard = 64;
  std::vector<char> bytes;
  size_t size;

  explicit Buffer(RankedTensorType type)
      : bytes(type.getNumElements() * elementBytes(type.getElementType()) + guard, char(0xff)),
        size(bytes.size() - guard) {}
  bool guardIntact() const {
    return std::all_of(bytes.begin() + size, bytes.end(), [](char c) { return c == char(0xff); });
  }
};

template <typename T>
void put(Buffer &buffer, int64_t i, T value) {
  std::memcpy(buffer.bytes.data() + i * sizeof(T), &value, sizeof(T));
}
template <typename T>
T get(const Buffer &buffer, int64_t i) {
  T value;
  std::memcpy(&value, buffer.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

void write(const RefTensor &tensor, Buffer &buffer) {
  Type element = tensor.element();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = tensor.data[i];
    if (auto type = dyn_cast<FloatType>(element)) {
      llvm::APFloat number(value);
      bool lossy;
      number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      uint64_t bits = number.bitcastToAPInt().getZExtValue();
      std::memcpy(buffer.bytes.data() + i * elementBytes(element), &bits, elementBytes(element));
    } else if (element.isInteger(1)) {
      put<uint8_t>(buffer, i, value != 0);
    } else if (element.isInteger(32)) {
      put<int32_t>(buffer, i, static_cast<int32_t>(value));
    } else {
      put<int64_t>(buffer, i, static_cast<int64_t>(value));
    }
  }
}

RefTensor read(RankedTensorType type, const Buffer &buffer) {
  RefTensor tensor{type, std::vector<double>(type.getNumElements())};
  Type element = type.getElementType();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (auto number = dyn_cast<FloatType>(element)) {
      uint64_t bits = 0;
      std::memcpy(&bits, buffer.bytes.data() + i * elementBytes(element), elementBytes(element));
      llvm::APFloat value(number.getFloatSemantics(), llvm::APInt(number.getWidth(), bits));
      bool lossy;
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      tensor.data[i] = value.convertToDouble();
    } else if (element.isInteger(1)) {
      tensor.data[i] = get<uint8_t>(buffer, i);
    } else if (element.isInteger(32)) {
      tensor.data[i] = get<int32_t>(buffer, i);
    } else {
      tensor.data[i] = get<int64_t>(buffer, i);
    }
  }
  return tensor;
}

void *load(const std::string &bytes) {
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || ::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return nullptr;
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  return library;
}

} // namespace

LoadedKernel::LoadedKernel(const KernelText &text, const cpu::EmitOptions &options)
    : context(MLIRContext::Threading::DISABLED) {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  module = parseSourceString<ModuleOp>(text.module(), ParserConfig(&context));
  if (!module) {
    error = "the test's kernel does not parse:\n" + text.module();
    return;
  }
  function = *module->getOps<func::FuncOp>().begin();
  auto kernel = *function.getBody().getOps<KernelOp>().begin();
  std::string refusal;
  std::optional<KernelInfo> analysed = analyzeKernel(kernel, refusal);
  if (!analysed) {
    error = refusal;
    return;
  }
  info = std::move(*analysed);
  launch = cpu::launchOf(info);
  std::optional<std::string> bytes =
      cpu::emitKernels(KernelSource{"kernel", kernel}, options, cpu::Artefact::sharedObject, error);
  if (!bytes)
    return;
  library = load(*bytes);
  if (!library) {
    error = dlerror();
    return;
  }
  entry = reinterpret_cast<void (*)(int64_t, int64_t, void *const *)>(dlsym(library, "kernel"));
}

LoadedKernel::~LoadedKernel() {
  if (library)
    dlclose(library);
}

std::vector<RefTensor> LoadedKernel::run(const std::vector<RefTensor> &inputs, int64_t piece, bool reversed,
                                         const std::vector<int> &shared) const {
  FunctionType type = const_cast<func::FuncOp &>(function).getFunctionType();
  std::vector<Buffer> buffers;
  for (Type port : type.getInputs())
    buffers.emplace_back(cast<RankedTensorType>(port));
  for (Type port : type.getResults())
    buffers.emplace_back(cast<RankedTensorType>(port));
  std::vector<void *> pointers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i < inputs.size())
      write(inputs[i], buffers[i]);
    pointers.push_back(buffers[i].bytes.data());
  }
  for (size_t i = 0; i < shared.size(); ++i)
    if (shared[i] >= 0)
      pointers[inputs.size() + i] = pointers[shared[i]];

  int64_t step = piece == 0 ? std::max<int64_t>(launch.extent, 1)
                            : (piece + launch.granularity - 1) / launch.granularity * launch.granularity;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t begin = 0; begin < launch.extent; begin += step)
    pieces.emplace_back(begin, std::min(begin + step, launch.extent));
  if (reversed)
    std::reverse(pieces.begin(), pieces.end());
  for (auto [begin, end] : pieces)
    entry(begin, end, pointers.data());

  std::vector<RefTensor> results;
  for (auto [i, port] : llvm::enumerate(type.getResults())) {
    bool inPlace = i < shared.size() && shared[i] >= 0;
    results.push_back(read(cast<RankedTensorType>(port), buffers[inPlace ? shared[i] : inputs.size() + i]));
  }
  for (const Buffer &buffer : buffers)
    EXPECT_TRUE(buffer.guardIntact()) << "a kernel wrote behind a buffer";
  return results;
}

std::vector<RefTensor> LoadedKernel::randomInputs(double low, double high, uint64_t seed) const {
  std::vector<RefTensor> inputs;
  for (Type type : const_cast<func::FuncOp &>(function).getFunctionType().getInputs())
    inputs.push_back(randomTensor(cast<RankedTensorType>(type), seed++, low, high));
  return inputs;
}

std::vector<cpu::Target> runnableTargets() {
  std::vector<cpu::Target> targets = {{}, {"x86-64", "", 0}};
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx2") && features.lookup("fma"))
    targets.push_back({"x86-64-v3", "", 0});
  return targets;
}

void expectLikeInterpreter(const KernelText &text, std::vector<RefTensor> inputs, Tolerance tolerance) {
  for (const cpu::Target &target : runnableTargets()) {
    SCOPED_TRACE("cpu " + target.cpu + "\n" + text.module());
    cpu::EmitOptions options;
    options.target = target;
    options.threads = 1;
    LoadedKernel kernel(text, options);
    ASSERT_EQ(kernel.error, "");
    std::vector<RefTensor> arguments = inputs.empty() ? kernel.randomInputs() : inputs;
    for (auto [argument, type] : llvm::zip(arguments, kernel.function.getFunctionType().getInputs()))
      argument.type = cast<RankedTensorType>(type); // of this kernel's context
    std::vector<RefTensor> results = kernel.run(arguments);
    for (int64_t piece : {int64_t(1), int64_t(3), (kernel.launch.extent + 1) / 2})
      EXPECT_TRUE(sameBits(results, kernel.run(arguments, piece, /*reversed=*/piece == 3)))
          << "the result depends on the division into pieces of " << piece;

    std::string error;
    auto exact = interpret(kernel.function, arguments, RefMode::exact, error);
    ASSERT_TRUE(succeeded(exact)) << error;
    auto rounded = interpret(kernel.function, arguments, RefMode::rounding, error);
    ASSERT_TRUE(succeeded(rounded)) << error;
    for (size_t i = 0; i < results.size(); ++i) {
      Comparison comparison = compare(results[i], (*exact)[i], (*rounded)[i], {}, tolerance);
      EXPECT_TRUE(comparison.ok) << "result " << i << ": " << comparison.message;
    }
  }
}

} // namespace tcc::test
