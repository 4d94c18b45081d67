#include "tests/forms_target/target.h"
#include "codegen/product.h"
#include "tests/forms_target/device.h"
#include <deque>
#include <mutex>

using namespace mlir;

namespace tcc::forms {
namespace {

constexpr KernelEmission shownKernels[] = {{"forms", ".forms", true}};
constexpr llvm::StringLiteral usual = "rounding";

std::mutex mutex;

std::deque<KernelList> &lists() {
  static std::deque<KernelList> all;
  return all;
}

class FormsTarget final : public Target {
public:
  explicit FormsTarget(StringRef architecture) : architecture(architecture) {
    data.name = "forms";
    data.epilogues = {.bias = false, .addend = false};
    data.padding.multiple = 0;
  }

  const TargetModel &model() const override { return data; }
  bool supports(StringRef op) const override { return op == MatmulOp::getOperationName(); }
  int64_t scratchBytes(Operation *) const override { return 0; }
  /// A kernel runs as a whole; of a segment's form the extent is the number of its elements.
  KernelLaunch launch(const KernelInfo &form) const override { return {form.space.columns, 1}; }

  runtime::Expected<std::vector<std::string>> emit(ArrayRef<KernelSource> kernels) const override {
    KernelList list{{}, architecture == "exact" ? RefMode::exact : RefMode::rounding};
    for (const KernelSource &source : kernels)
      list.kernels.push_back(std::get<FormKernel>(source)); // lower() adds no texts
    return std::vector<std::string>{keep(std::move(list))};
  }
  runtime::Expected<std::vector<std::string>> emitAs(StringRef emission,
                                                     ArrayRef<KernelSource> kernels) const override {
    if (emission != "forms")
      return Target::emitAs(emission, kernels);
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (const KernelSource &source : kernels) {
      stream << symbolOf(source) << ":\n";
      std::get<FormKernel>(source).form.print(stream);
    }
    return std::vector<std::string>{text};
  }

  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &) const override {
    auto product = cast<MatmulOp>(call.op);
    if (!tensorType(product.getA()).getElementType().isF32())
      return runtime::Error("target 'forms' multiplies f32 alone");
    return lowerProduct(call, data, plan);
  }

  FastProducts fastProducts() const override { return {}; }
  std::string codeName() const override { return data.name + ":" + architecture; }
  runtime::Expected<std::string> needs() const override { return std::string(); }

private:
  std::string architecture;
  TargetModel data;
};

class FormsKind final : public TargetKind {
public:
  StringRef name() const override { return "forms"; }
  StringRef noun() const override { return "form interpreter"; }
  StringRef help() const override { return "the interpreter of kernel forms; -march=exact or rounding"; }

  bool owns(StringRef architecture) const override { return architecture == "exact" || architecture == usual; }
  StringRef expected() const override { return "exact or rounding"; }
  runtime::Expected<std::vector<std::string>> targetsFor(ArrayRef<std::string> architectures,
                                                         std::string &why) const override {
    if (architectures.empty() || architectures.front() == "native") {
      why = "values are rounded where nothing else is said";
      return std::vector<std::string>{("forms:" + usual).str()};
    }
    std::vector<std::string> targets;
    for (const std::string &architecture : architectures)
      targets.push_back("forms:" + architecture);
    return targets;
  }
  runtime::Expected<std::unique_ptr<Target>> make(StringRef architecture, const CodeOptions &, int) const override {
    return std::unique_ptr<Target>(
        std::make_unique<FormsTarget>(architecture.empty() ? StringRef(usual) : architecture));
  }

  ArrayRef<KernelEmission> emissions() const override { return shownKernels; }
  bool hasDevices() const override { return true; }
  runtime::Expected<std::shared_ptr<runtime::Device>> openDevice(const DeviceOptions &options) const override {
    if (options.ordinal != 0)
      return runtime::Error("there is one interpreter, number 0");
    return makeDevice();
  }
  bool examine(llvm::raw_ostream &os) const override {
    os << "for the interpreter of forms:\n  ok       forms\n";
    return true;
  }
};

} // namespace

const TargetKind &kind() {
  static const FormsKind only;
  return only;
}

std::string keep(KernelList list) {
  const std::lock_guard lock(mutex);
  lists().push_back(std::move(list));
  return std::to_string(lists().size() - 1);
}

const KernelList *kept(const std::string &code) {
  size_t number = 0;
  const std::lock_guard lock(mutex);
  return StringRef(code).getAsInteger(10, number) || number >= lists().size() ? nullptr : &lists()[number];
}

} // namespace tcc::forms
