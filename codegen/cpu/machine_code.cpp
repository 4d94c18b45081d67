#include "codegen/cpu/machine_code.h"
#include "runtime/cpu.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include <mutex>

namespace tcc::cpu {

static std::string featureText(const Target &target) {
  llvm::SubtargetFeatures features;
  const bool asFound = target.cpu == "native" && runtime::cpuLimit().empty(); // a level's name says all of its features
  if (asFound)
    for (const auto &[name, present] : llvm::sys::getHostCPUFeatures())
      features.AddFeature(name, present);
  if (asFound && !runtime::hasTiles()) // the CPU may have them and the system withhold them
    for (const char *name : {"amx-tile", "amx-bf16"})
      features.AddFeature(name, false);
  // With arithmetic of its own for f16, LLVM narrows f32 operations between roundings to f16 and fuses them there: a
  // rounding that the kernel has would be lost.
  features.AddFeature("avx512fp16", false);
  llvm::SubtargetFeatures additional(target.features);
  for (const std::string &feature : additional.getFeatures())
    features.AddFeature(feature);
  return features.getString();
}

bool knowsCpu(llvm::StringRef name) {
  return !llvm::Triple(llvm::sys::getProcessTriple()).isX86() ||
         llvm::X86::parseArchX86(name, /*Only64Bit=*/true) != llvm::X86::CK_None;
}

std::string nativeCpu() {
  return runtime::cpuLimit().empty() ? llvm::sys::getHostCPUName().str() : std::string(runtime::cpuLimit());
}

runtime::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const Target &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
  if (target.vectorBytes != 0 && target.vectorBytes != 16 && target.vectorBytes != 32 && target.vectorBytes != 64)
    return runtime::Error("vector width of " + std::to_string(target.vectorBytes) +
                          " bytes; 16, 32 and 64 are possible");
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string unknown;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, unknown);
  if (!backend)
    return runtime::Error(unknown);
  std::string cpu = target.cpu;
  if (cpu == "native") {
    if (runtime::Error wrong = runtime::checkCpuLimit())
      return wrong;
    cpu = nativeCpu();
  }
  if (!knowsCpu(cpu))
    return runtime::Error("unknown CPU '" + cpu + "'; names are LLVM's, for example x86-64-v3 or native");
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, cpu, featureText(target), llvm::TargetOptions(), llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Default));
}

runtime::Expected<std::string> usedFeatures(const Target &target, llvm::ArrayRef<std::string_view> known) {
  auto created = createMachine(target);
  if (!created)
    return created.error();
  const llvm::TargetMachine &machine = **created;
  std::string list;
  for (std::string_view name : known)
    if (machine.getTargetTriple().isX86() && machine.getMCSubtargetInfo()->checkFeatures("+" + std::string(name)))
      list += (list.empty() ? "" : ",") + std::string(name);
  return list;
}

VectorTarget vectorTarget(const llvm::TargetMachine &machine, const Target &target) {
  auto has = [&](llvm::StringRef features) { return machine.getMCSubtargetInfo()->checkFeatures(features); };
  VectorTarget result;
  result.hasAvx512 = has("+avx512f,+avx512bw,+avx512dq,+avx512vl");
  result.hasFma = has("+fma") || !machine.getTargetTriple().isX86();
  result.hasF16 = has("+f16c") || !machine.getTargetTriple().isX86();
  unsigned bytes = target.vectorBytes;
  if (bytes == 0)
    bytes = result.hasAvx512 ? 64 : has("+avx2") ? 32 : 16;
  result.lanes = std::max(4u, bytes / 4);
  result.hasTiles = result.lanes == 16 && result.hasAvx512 && has("+avx512bf16,+amx-bf16,+amx-tile");
  // CPUs with AMX take eight cycles' worth of FMA for the product of pairs: f32 is twice as fast there.
  result.hasBf16Products = result.lanes == 16 && result.hasAvx512 && has("+avx512bf16,-amx-bf16");
  return result;
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned vectorBytes) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr("prefer-vector-width", std::to_string(vectorBytes * 8));
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  // No loop becomes a call of memset or memcpy: the shared object stands alone.
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  // Kernels come vectorised and unrolled, without calls and with hardly a variable in memory: of what -O2 does, this is
  // what shortens them, in a seventh of its time.
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager whole;
  whole.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  whole.run(module, modules);
}

/// The machine is LLVM's, with its features resolved: what "native" is differs from host to host.
runtime::Expected<std::string> machineKey(const EmitOptions &options) {
  auto machine = createMachine(options.target);
  if (!machine)
    return machine.error();
  const VectorTarget vectors = vectorTarget(**machine, options.target);
  auto line = [](llvm::StringRef what, const llvm::Twine &value) {
    return (what + llvm::Twine(' ') + value + llvm::Twine('\n')).str();
  };
  return line("llvm", LLVM_VERSION_STRING) + line("triple", (*machine)->getTargetTriple().str()) +
         line("cpu", (*machine)->getTargetCPU()) + line("features", (*machine)->getTargetFeatureString()) +
         line("vector bytes", llvm::Twine(vectors.lanes * 4)) + line("tiles", llvm::Twine(vectors.hasTiles)) +
         line("fast math", llvm::Twine(options.fastMath)) + line("steady", llvm::Twine(options.steady));
}

namespace {

/// Leaves two of LLVM's passes out. Loop strength reduction weighs many ways to compute the addresses of an unrolled
/// loop, which takes a fifth of the time from a kernel to its machine code. An address in a kernel is a row's pointer,
/// an index and a constant, which an x86 instruction adds up by itself: without the pass kernels are shorter, have
/// fewer spills and are as fast. The other pass prepares for it.
class KernelPasses : public llvm::OptPassGate {
public:
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override {
    return pass != "Loop Strength Reduction" && pass != "Canonicalize Freeze Instructions in Loops";
  }
};

} // namespace

runtime::Expected<std::string> generateCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly) {
  static KernelPasses kernelPasses;
  module.getContext().setOptPassGate(kernelPasses);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
    return runtime::Error("the target '" + machine.getTargetCPU().str() + "' cannot write this kind of file");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

} // namespace tcc::cpu
