// Kernels to machine code, in these steps:
//   1. threads take kernels, in contexts of their own: emit, lower, optimise, generate code;
//   2. the objects are linked in the order of the kernels (shared_code.h).
// Text holds all kernels in one module.
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/attention.h"
#include "codegen/cpu/interleave.h"
#include "codegen/cpu/kernel_emitter.h"
#include "codegen/cpu/kernel_plan.h"
#include "codegen/cpu/lowering.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/math_approximation.h"
#include "codegen/cpu/shared_code.h"
#include "codegen/time_trace.h"
#include "llvm/IR/AssemblyAnnotationWriter.h"
#include "llvm/IR/Constants.h"
#include "llvm/Support/FormattedStream.h"
#include <atomic>
#include <thread>

using namespace mlir;

namespace tcc::cpu {
namespace {

/// Kernels that are compiled together.
using KernelGroup = llvm::ArrayRef<KernelToEmit>;

/// What stands above a function in -emit=llvm: the space, and the fused ops with their source lines.
std::string headComment(const KernelSource &source) {
  static constexpr const char *axes[] = {"rows", "outer blocks", "columns"};
  if (const auto *written = std::get_if<TextKernel>(&source))
    return "; " + written->text + ", items are workers\n";
  const auto &kernel = std::get<FormKernel>(source);
  const KernelInfo &info = kernel.form;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "; " << kernel.title() << ": " << info.space.outer << " x " << info.space.rows << " x ";
  if (info.isSegment())
    stream << "any multiple of " << KernelInfo::segmentSizes << " + " << info.space.columns % KernelInfo::segmentSizes;
  else
    stream << info.space.columns;
  stream << ", " << info.stages << (info.stages == 1 ? " pass" : " passes") << ", items are "
         << axes[static_cast<int>(parallelOf(info))] << '\n';
  std::string line = "; fuses", where;
  for (const KernelNames::Op &op : kernel.names.ops) {
    std::string word = " " + op.name;
    if (!op.source.empty() && op.source != where)
      word += " (" + op.source + ")";
    where = op.source;
    if (line.size() + word.size() > 118) {
      stream << line << '\n';
      line = ";      ";
    }
    line += word;
  }
  stream << line << '\n';
  return text;
}

class HeadComments : public llvm::AssemblyAnnotationWriter {
public:
  llvm::StringMap<std::string> comments;
  void emitFunctionAnnot(const llvm::Function *function, llvm::formatted_raw_ostream &os) override {
    os << comments.lookup(function->getName());
  }
};

std::string printText(const llvm::Module &module, HeadComments &comments) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, &comments);
  return text;
}

runtime::Error emitOne(OpBuilder &builder, const KernelToEmit &kernel, const VectorTarget &target) {
  if (const auto *formed = std::get_if<FormKernel>(kernel.source)) {
    const std::optional<KernelTuning> tuning = KernelTuning::of(formed->tuning);
    if (!tuning)
      return runtime::Error("'" + formed->tuning + "' is no choice for a CPU's kernel");
    return emitKernel(builder, formed->symbol, formed->form, target, kernel.readsRows ? rowsSymbol : "", *tuning);
  }
  const auto &written = std::get<TextKernel>(*kernel.source);
  std::optional<AttentionForm> form = AttentionForm::of(StringRef(written.text));
  if (!form)
    return runtime::Error("the CPU has no '" + written.text + "'");
  emitAttention(builder, written.symbol, *form, target);
  return {};
}

/// What LLVM may do with a kernel's floating-point ops. Those of a fused kernel are the graph's, and each is rounded on
/// its own: a value has the same bits wherever it is stored or computed again. The products and sums of a structured
/// op's kernel are its own, computed in one place alone.
arith::FastMathFlags flagsOf(const KernelSource &source, const EmitOptions &options) {
  using Flags = arith::FastMathFlags;
  const bool isStructured = std::holds_alternative<TextKernel>(source);
  if (options.fastMath && (isStructured || !options.steady))
    return Flags::contract | Flags::reassoc | Flags::nsz;
  return isStructured ? Flags::contract : Flags::none;
}

/// Emits the group's kernels into `module`, which is created in a context of the group's own.
runtime::Error emitGroup(KernelGroup group, ModuleOp module, const VectorTarget &target, const EmitOptions &options,
                         HeadComments &comments) {
  OpBuilder builder(module.getContext());
  for (const KernelToEmit &kernel : group) {
    builder.setInsertionPointToEnd(module.getBody());
    const std::string &symbol = symbolOf(*kernel.source);
    if (runtime::Error error = emitOne(builder, kernel, target))
      return runtime::Error("kernel '" + std::string(kernel.name) + "': " + error.message());
    comments.comments[symbol] = headComment(*kernel.source);
    addFastMathFlags(module.lookupSymbol(symbol), flagsOf(*kernel.source, options));
  }
  expandMath(module, target);
  interleaveVectors(module);
  return {};
}

/// The assembly with each kernel's head comment above its label.
std::string withComments(llvm::StringRef assembly, const HeadComments &comments) {
  std::string text;
  while (!assembly.empty()) {
    auto [line, rest] = assembly.split('\n');
    auto comment = line.contains(':') ? comments.comments.find(line.split(':').first) : comments.comments.end();
    llvm::StringRef more = comment == comments.comments.end() ? llvm::StringRef() : comment->second;
    for (; !more.empty(); more = more.split('\n').second)
      text += ("#" + more.split('\n').first.drop_front() + "\n").str();
    text += (line + "\n").str();
    assembly = rest;
  }
  return text;
}

/// Says of the number of rows, if the module reads it, that it is one: no address, and known when code is linked.
void declareRows(llvm::Module &module) {
  llvm::GlobalVariable *rows = module.getNamedGlobal(rowsSymbol);
  if (!rows)
    return;
  rows->setVisibility(llvm::GlobalValue::HiddenVisibility);
  rows->setDSOLocal(true);
  llvm::Type *i64 = llvm::Type::getInt64Ty(module.getContext());
  auto bound = [&](int64_t value) -> llvm::Metadata * {
    return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i64, value));
  };
  rows->setMetadata(llvm::LLVMContext::MD_absolute_symbol,
                    llvm::MDNode::get(module.getContext(), {bound(0), bound(mostRows + 1)}));
}

/// The group's object or text.
runtime::Expected<std::string> compileGroup(KernelGroup group, MLIRContext &context, const EmitOptions &options,
                                            Artefact artefact) {
  const llvm::TimeTraceScope traced("kernels", [&] { return std::string(group.front().name); });
  auto created = createMachine(options.target);
  if (!created)
    return created.error();
  llvm::TargetMachine &machine = **created;
  VectorTarget target = vectorTarget(machine, options.target);
  target.steady = options.steady;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  HeadComments comments;
  if (runtime::Error error = emitGroup(group, *module, target, options, comments))
    return error;
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
  if (llvm::TimeTraceScope step("lower to LLVM"); succeeded(lowerToLLVMDialect(*module)))
    llvmModule = translateToLLVM(*module, llvmContext);
  if (!llvmModule)
    return runtime::Error("kernel '" + std::string(group.front().name) + "': lowering to LLVM failed");
  declareRows(*llvmModule);
  {
    const llvm::TimeTraceScope step("optimize");
    optimize(*llvmModule, machine, target.lanes * 4);
  }
  if (artefact == Artefact::llvm)
    return printText(*llvmModule, comments);
  const llvm::TimeTraceScope step("machine code");
  runtime::Expected<std::string> code = generateCode(*llvmModule, machine, artefact == Artefact::assembly);
  if (code && artefact == Artefact::assembly)
    return withComments(*code, comments);
  return code;
}

/// Runs work(i, worker's own MLIRContext) for all i < count.
void inParallel(size_t count, unsigned threads, llvm::function_ref<void(size_t, MLIRContext &)> work) {
  DialectRegistry registry;
  registerEmitterDialects(registry);
  std::atomic<size_t> next = 0;
  const bool isTraced = llvm::timeTraceProfilerEnabled();
  auto worker = [&] {
    const ThreadTimeTrace thread(isTraced);
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    for (size_t i = next++; i < count; i = next++)
      work(i, context);
  };
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i)
    others.emplace_back(worker);
  worker();
  for (std::thread &other : others)
    other.join();
}

} // namespace

/// The outputs for each group of kernels, made on several threads.
static runtime::Expected<std::vector<std::string>> emitGroups(llvm::ArrayRef<KernelGroup> groups,
                                                              const EmitOptions &options, Artefact artefact) {
  std::vector<runtime::Expected<std::string>> outputs(groups.size(), std::string());
  inParallel(groups.size(), options.threads,
             [&](size_t i, MLIRContext &context) { outputs[i] = compileGroup(groups[i], context, options, artefact); });
  std::vector<std::string> codes;
  for (runtime::Expected<std::string> &output : outputs) {
    if (!output)
      return output.error();
    codes.push_back(std::move(*output));
  }
  return codes;
}

runtime::Expected<std::vector<std::string>> emitObjects(llvm::ArrayRef<KernelToEmit> kernels,
                                                        const EmitOptions &options) {
  std::vector<KernelGroup> groups;
  for (const KernelToEmit &kernel : kernels)
    groups.emplace_back(kernel);
  return emitGroups(groups, options, Artefact::object);
}

runtime::Expected<std::string> emitKernels(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options,
                                           Artefact artefact) {
  if (artefact == Artefact::sharedObject) {
    SharedCode code(kernels, options);
    if (runtime::Error error = code.compileMissing())
      return error;
    return code.link();
  }
  std::vector<KernelToEmit> all;
  for (const KernelSource &source : kernels)
    all.push_back({&source, symbolOf(source)});
  runtime::Expected<std::vector<std::string>> code = emitGroups(KernelGroup(all), options, artefact);
  return code ? runtime::Expected<std::string>(std::move(code->front())) : code.error();
}

} // namespace tcc::cpu
