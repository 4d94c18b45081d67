// Kernels to machine code, in these steps:
//   1. each kernel is printed alone, so that other threads can read it in contexts of their own;
//   2. kernels are dealt into shards, a function of the list alone, so that the bytes do not depend on threads;
//   3. threads take shards: parse, analyse, emit, lower, optimise, generate code;
//   4. the objects are linked in the order of the shards.
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/kernel_emitter.h"
#include "codegen/cpu/lowering.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/math_approximation.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/AssemblyAnnotationWriter.h"
#include "llvm/Support/FormattedStream.h"
#include <atomic>
#include <thread>

using namespace mlir;

namespace tcc::cpu {
namespace {

constexpr size_t kernelsInShard = 4;

struct ShardInput {
  std::vector<std::string> symbols, texts; // a module with one function @symbol, whose body is the kernel
};

struct ShardOutput {
  std::string bytes, error;
};

/// func.func @symbol(operands) -> results { kernel; return results }
std::string printAlone(StringRef symbol, KernelOp kernel) {
  OpBuilder builder(kernel.getContext());
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  auto type = builder.getFunctionType(kernel->getOperandTypes(), kernel->getResultTypes());
  auto function = func::FuncOp::create(builder, loc, symbol, type);
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (auto [operand, argument] : llvm::zip(kernel->getOperands(), entry->getArguments()))
    mapping.map(operand, argument);
  // Operands that are one value become several arguments; the mapping is of the clone's operands, in order.
  Operation *clone = builder.clone(*kernel.getOperation(), mapping);
  clone->setOperands(entry->getArguments());
  func::ReturnOp::create(builder, loc, clone->getResults());
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  return text;
}

std::string sourceLine(Location loc) {
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

/// What stands above a function in -emit=llvm: the space, and the fused ops with their source lines.
std::string headComment(KernelOp kernel, const KernelInfo &info) {
  static constexpr const char *axes[] = {"rows", "outer blocks", "columns"};
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "; " << kernel.getLabel().value_or("kernel") << ": " << info.space.outer << " x " << info.space.rows
         << " x " << info.space.columns << ", " << info.stages << (info.stages == 1 ? " pass" : " passes")
         << ", items are " << axes[static_cast<int>(info.parallel())] << '\n';
  std::string line = "; fuses", where;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    std::string place = sourceLine(op.getLoc()), word = " " + op.getName().stripDialect().str();
    if (!place.empty() && place != where)
      word += " (" + place + ")";
    where = place;
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

/// Emits the shard's kernels into `module`, which is created in the shard's own context.
bool emitShard(const ShardInput &shard, ModuleOp module, const VectorTarget &target, const EmitOptions &options,
               HeadComments &comments, std::string &error) {
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  for (auto [symbol, text] : llvm::zip(shard.symbols, shard.texts)) {
    OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, ParserConfig(context));
    KernelOp kernel;
    if (source)
      source->walk([&](KernelOp found) { kernel = found; });
    std::string refusal = "the kernel's text could not be read back";
    std::optional<KernelInfo> info;
    if (kernel)
      info = analyzeKernel(kernel, refusal);
    builder.setInsertionPointToEnd(module.getBody());
    if (!info || !emitKernel(builder, symbol, kernel, *info, target, refusal)) {
      error = "kernel '" + symbol + "': " + refusal;
      return false;
    }
    comments.comments[symbol] = headComment(kernel, *info);
  }
  setFastMathFlags(module, options.fastMath);
  expandMath(module, target);
  return true;
}

ShardOutput compileShard(const ShardInput &shard, MLIRContext &context, const EmitOptions &options, Artefact artefact) {
  ShardOutput output;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(options.target, output.error);
  if (!machine)
    return output;
  VectorTarget target = vectorTarget(*machine, options.target);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  HeadComments comments;
  if (!emitShard(shard, *module, target, options, comments, output.error))
    return output;
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
  if (succeeded(lowerToLLVMDialect(*module)))
    llvmModule = translateToLLVM(*module, llvmContext);
  if (!llvmModule) {
    output.error = "kernel '" + shard.symbols.front() + "': lowering to LLVM failed";
    return output;
  }
  optimize(*llvmModule, *machine, target.lanes * 4);
  if (artefact == Artefact::llvm) {
    output.bytes = printText(*llvmModule, comments);
    return output;
  }
  std::optional<std::string> code = generateCode(*llvmModule, *machine, artefact == Artefact::assembly, output.error);
  if (code)
    output.bytes = std::move(*code);
  return output;
}

/// Runs work(i, worker's own MLIRContext) for all i < count.
void inParallel(size_t count, unsigned threads, llvm::function_ref<void(size_t, MLIRContext &)> work) {
  DialectRegistry registry;
  registerEmitterDialects(registry);
  std::atomic<size_t> next = 0;
  auto worker = [&] {
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

std::optional<std::string> emitKernels(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options,
                                       Artefact artefact, std::string &error) {
  // Text and a single object hold all kernels in one module.
  size_t shardSize = artefact == Artefact::sharedObject ? kernelsInShard : std::max<size_t>(1, kernels.size());
  std::vector<ShardInput> shards(std::max<size_t>(1, (kernels.size() + shardSize - 1) / shardSize));
  for (auto [i, source] : llvm::enumerate(kernels)) {
    ShardInput &shard = shards[i % shards.size()];
    shard.symbols.push_back(source.symbol);
    shard.texts.push_back(printAlone(source.symbol, source.kernel));
  }
  std::vector<ShardOutput> outputs(shards.size());
  inParallel(shards.size(), options.threads,
             [&](size_t i, MLIRContext &context) { outputs[i] = compileShard(shards[i], context, options, artefact); });
  std::vector<std::string> objects;
  for (ShardOutput &output : outputs) {
    if (!output.error.empty()) {
      error = output.error;
      return std::nullopt;
    }
    objects.push_back(std::move(output.bytes));
  }
  if (artefact == Artefact::sharedObject)
    return linkSharedObject(objects, error);
  return objects.front();
}

} // namespace tcc::cpu
