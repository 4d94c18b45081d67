#include "tests/forms_target/device.h"
#include "ir/reference/bytes.h"
#include "ir/scalar_form.h"
#include "tests/forms_target/target.h"
#include "tests/ir/kernel_evaluator.h"
#include <cstring>

using namespace mlir;

namespace tcc::forms {
namespace {

using namespace tcc::runtime;

/// Kernels, by symbol, and what the interpreter's tensors need.
struct Kernels {
  RankedTensorType typeOf(const KernelTensor &tensor) {
    return RankedTensorType::get({tensor.elements}, mlirType(&context, tensor.type));
  }

  RefMode mode = RefMode::rounding;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::map<std::string, const FormKernel *> bySymbol;
};

/// Runs one kernel over one set of tensors, results last.
Error runForm(Kernels &kernels, const FormKernel &kernel, int64_t extent, ArrayRef<char *> tensors,
              ArrayRef<int64_t> bytes) {
  KernelInfo form = kernel.form;
  const size_t inputs = form.arguments.size();
  auto resize = [&](KernelTensor &tensor, size_t i) { tensor.elements = bytes[i] / facts(tensor.type).bytes; };
  if (form.isSegment()) { // the form is that of the least sizes
    const IndexExpr element = IndexExpr::ofAxis(axis::column, extent);
    form.space.columns = extent;
    for (size_t i = 0; i < inputs; ++i)
      resize(form.arguments[i], i);
    for (size_t i = 0; i < form.results.size(); ++i)
      resize(form.results[i], inputs + i);
    for (KernelNode &node : form.nodes)
      if (!node.index.isConstant())
        node.index = element;
    for (KernelStore &store : form.stores)
      store.index = element;
  }
  std::vector<RefTensor> arguments;
  std::vector<RankedTensorType> results;
  for (size_t i = 0; i < inputs; ++i)
    arguments.push_back(readBytes(kernels.typeOf(form.arguments[i]), tensors[i]));
  for (const KernelTensor &result : form.results)
    results.push_back(kernels.typeOf(result));
  const test::KernelRun run = test::runKernelForm(form, results, arguments, kernels.mode);
  if (!run.fault.empty())
    return Error(run.fault);
  for (size_t i = 0; i < results.size(); ++i)
    writeBytes(run.results[i], tensors[inputs + i]);
  return {};
}

/// f32 by plain loops.
void multiply(const GemmDesc &desc, const char *a, const char *b, char *c) {
  auto offset = [](const MatrixLayout &layout, int64_t outer, int64_t inner, int64_t row, int64_t column) {
    return outer * layout.batchStrides[0] + inner * layout.batchStrides[1] + row * layout.rowStride +
           column * layout.columnStride;
  };
  auto element = [](const char *from, int64_t at) { return reinterpret_cast<const float *>(from)[at]; };
  for (int64_t outer = 0; outer < desc.batch[0]; ++outer)
    for (int64_t inner = 0; inner < desc.batch[1]; ++inner)
      for (int64_t i = 0; i < desc.m; ++i)
        for (int64_t j = 0; j < desc.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < desc.k; ++k)
            sum += static_cast<double>(element(a, offset(desc.a, outer, inner, i, k))) *
                   element(b, offset(desc.b, outer, inner, k, j));
          reinterpret_cast<float *>(c)[offset(desc.c, outer, inner, i, j)] = static_cast<float>(sum);
        }
}

struct Outputs final : StepOutputs {
  std::vector<std::string> values;
  Error read(size_t index, void *to, int64_t bytes) override {
    std::memcpy(to, values.at(index).data(), static_cast<size_t>(bytes));
    return {};
  }
};

class FormsProgram final : public Program {
public:
  FormsProgram(const Plan &plan, std::unique_ptr<Kernels> kernels) : plan(plan), kernels(std::move(kernels)) {}

  Error place(const Placement &placement) override {
    buffers.assign(placement.buffers.begin(), placement.buffers.end());
    inputs.assign(placement.inputs.begin(), placement.inputs.end());
    outputs.assign(placement.outputs.begin(), placement.outputs.end());
    return {};
  }
  Error run(Profiler *profiler) override { return runPart(0, plan.instructions.size(), profiler); }
  Error runPart(size_t begin, size_t end, Profiler *) override {
    for (size_t i = begin; i < end; ++i) {
      const Instruction &instruction = plan.instructions[i];
      if (Error error = std::visit([&](const auto &call) { return runCall(call); }, instruction.call))
        return instructionError(i, instruction, error.message());
    }
    return {};
  }
  Error finish() override { return {}; }
  Error sendInputs(std::span<const ConstTensorRef> given) override {
    for (size_t i = 0; i < given.size(); ++i)
      std::memcpy(inputs[i], given[i].data, static_cast<size_t>(given[i].bytes));
    return {};
  }
  Expected<std::shared_ptr<StepOutputs>> receiveOutputs(size_t count) override {
    auto received = std::make_shared<Outputs>();
    for (size_t i = 0; i < count; ++i)
      received->values.emplace_back(outputs[i], static_cast<size_t>(plan.outputs[i].bytes()));
    return std::shared_ptr<StepOutputs>(received);
  }
  int64_t ownBytes() const override { return 0; }
  int64_t arenaTouched() const override { return plan.arenaBytes; }

private:
  Error runCall(const KernelCall &call) {
    const FormKernel &kernel = *kernels->bySymbol.at(plan.kernels[call.kernel].symbol);
    for (const Segment &segment : call.segments) {
      SmallVector<char *> tensors;
      SmallVector<int64_t> bytes;
      for (BufferId id : segment.args) {
        tensors.push_back(buffers[id]);
        bytes.push_back(plan.buffers[id].bytes);
      }
      if (Error error = runForm(*kernels, kernel, segment.extent, tensors, bytes))
        return error;
    }
    return {};
  }
  Error runCall(const MatmulCall &call) {
    multiply(call.desc, buffers[call.a], buffers[call.b], buffers[call.c]);
    return {};
  }
  Error runCall(const CopyCall &call) {
    std::memmove(buffers[call.target], buffers[call.source], static_cast<size_t>(plan.buffers[call.target].bytes));
    return {};
  }
  Error runCall(const FillCall &call) {
    std::memset(buffers[call.target], call.value, static_cast<size_t>(plan.buffers[call.target].bytes));
    return {};
  }
  template <typename Call>
  Error runCall(const Call &) { // the target lowers nothing to these
    return Error("the interpreter has no instruction of this kind");
  }

  const Plan &plan;
  std::unique_ptr<Kernels> kernels;
  std::vector<char *> buffers, inputs, outputs;
};

class FormsDevice final : public Device {
public:
  std::string_view kind() const override { return "forms"; }
  const std::string &name() const override { return label; }
  bool sharesHostMemory() const override { return false; }
  int64_t memoryBytes() const override { return host->memoryBytes(); }
  int64_t allocatedBytes() const override { return host->allocatedBytes(); }
  std::string codeTarget() const override { return "forms:rounding"; }
  Error accepts(const TargetCode &code) const override {
    if (!code.target.starts_with("forms:"))
      return Error("it is for another kind of device");
    for (const std::string &list : code.code)
      if (!kept(list))
        return Error("its forms are of another process");
    return {};
  }
  Expected<DeviceMemory> allocate(int64_t bytes) override { return host->allocate(bytes); }
  Error copyIn(char *to, const void *from, int64_t bytes) override { return host->copyIn(to, from, bytes); }
  Error copyOut(void *to, const char *from, int64_t bytes) override { return host->copyOut(to, from, bytes); }
  Expected<char *> arena(int64_t bytes, int64_t alignment) override { return host->arena(bytes, alignment); }
  Expected<std::unique_ptr<Program>> load(const Plan &plan, std::span<const std::string> code,
                                          const ProgramOptions &) override {
    auto kernels = std::make_unique<Kernels>();
    for (const std::string &list : code) {
      kernels->mode = kept(list)->mode;
      for (const FormKernel &kernel : kept(list)->kernels)
        kernels->bySymbol[kernel.symbol] = &kernel;
    }
    return std::unique_ptr<Program>(new FormsProgram(plan, std::move(kernels)));
  }

private:
  std::string label = "forms:0 (an interpreter)";
  std::shared_ptr<Device> host = makeCpuDevice(); // for memory alone
};

} // namespace

std::shared_ptr<Device> makeDevice() {
  return std::make_shared<FormsDevice>();
}

} // namespace tcc::forms
