// emitKernels as a whole: several kernels, threads, text artefacts, and what the shared object asks of its loader.
#include "kernel_runner.h"
#include "mlir/Parser/Parser.h"
#include "tests/dialects.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace tcc;
using namespace tcc::test;

namespace {

/// Kernels @kernel0, @kernel1, … that differ in size.
class Kernels {
public:
  explicit Kernels(int count) : context(mlir::MLIRContext::Threading::DISABLED) {
    test::loadDialects(context);
    for (int i = 0; i < count; ++i) {
      std::string type = std::to_string(10 + i) + "xf32", t = " : tensor<" + type + ">";
      KernelText text{{{"x", type}}, {{"y", type}}, "%a = tcc.exp %x" + t + "\n%y = tcc.add %a, %x" + t};
      modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text.module(), mlir::ParserConfig(&context)));
      modules.back()->walk([&](KernelOp op) {
        std::string refusal;
        KernelNames names;
        KernelInfo form = *analyzeKernel(op, refusal, &names);
        sources.push_back(FormKernel{"kernel" + std::to_string(i), form, names});
      });
    }
  }
  std::string emit(unsigned threads, cpu::Artefact artefact, const cpu::Target &target = {}) {
    cpu::EmitOptions options;
    options.threads = threads;
    options.target = target;
    auto bytes = cpu::emitKernels(sources, options, artefact);
    EXPECT_EQ(bytes.error().message(), "");
    return bytes ? *bytes : "";
  }

private:
  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  std::vector<KernelSource> sources;
};

TEST(CpuEmit, BytesDoNotDependOnThreads) {
  Kernels kernels(9);
  std::string one = kernels.emit(1, cpu::Artefact::sharedObject);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, kernels.emit(3, cpu::Artefact::sharedObject));
}

TEST(CpuEmit, SharedObjectNeedsNothing) {
  std::string bytes = Kernels(5).emit(2, cpu::Artefact::sharedObject);
  auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernels"));
  ASSERT_TRUE(static_cast<bool>(object));
  auto &elf = llvm::cast<llvm::object::ELFObjectFileBase>(**object);
  std::set<std::string> defined;
  for (const llvm::object::ELFSymbolRef &symbol : elf.getDynamicSymbolIterators()) {
    std::string name = llvm::cantFail(symbol.getName()).str();
    EXPECT_FALSE(llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined) << name;
    defined.insert(name);
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(defined.count("kernel" + std::to_string(i)));
}

TEST(CpuEmit, TextNamesTheFusedOps) {
  Kernels kernels(2);
  std::string text = kernels.emit(1, cpu::Artefact::llvm);
  size_t comment = text.find("; kernel: 1 x 1 x 10, 1 pass, items are columns\n; fuses exp");
  ASSERT_NE(comment, std::string::npos) << text;
  EXPECT_LT(comment, text.find("define void @kernel0("));
  EXPECT_NE(text.find("define void @kernel1("), std::string::npos);
  EXPECT_NE(kernels.emit(1, cpu::Artefact::assembly).find("kernel1:"), std::string::npos);
  EXPECT_EQ(kernels.emit(1, cpu::Artefact::object).substr(0, 4), "\177ELF");
}

TEST(CpuEmit, LongComputationsOfSeveralVectorsRunSideBySide) {
  Kernels kernels(1);
  std::string text = kernels.emit(1, cpu::Artefact::llvm, {"x86-64-v3"});
  size_t loop = text.find(" = phi "), load = loop, multiplication = text.find("@llvm.fma", loop);
  ASSERT_NE(multiplication, std::string::npos) << text;
  for (int vector = 0; vector < 4; ++vector)
    load = text.find("load <8 x float>", load + 1);
  EXPECT_LT(load, multiplication) << text;
}

TEST(CpuEmit, RefusalsNameTheKernel) {
  cpu::EmitOptions options;
  LoadedKernel narrow({{{"x", "8xf8E4M3FN"}}, {{"y", "8xf8E4M3FN"}}, "%y = tcc.neg %x : tensor<8xf8E4M3FN>"}, options);
  EXPECT_NE(narrow.error.find("kernel 'kernel': expected f32 or 16-bit floats"), std::string::npos) << narrow.error;
  options.target.cpu = "no-such-cpu";
  LoadedKernel unknown({{{"x", "8xf32"}}, {{"y", "8xf32"}}, "%y = tcc.neg %x : tensor<8xf32>"}, options);
  EXPECT_NE(unknown.error.find("unknown CPU 'no-such-cpu'"), std::string::npos) << unknown.error;
  options.target = {"native", "", 48};
  LoadedKernel odd({{{"x", "8xf32"}}, {{"y", "8xf32"}}, "%y = tcc.neg %x : tensor<8xf32>"}, options);
  EXPECT_NE(odd.error.find("16, 32 and 64 are possible"), std::string::npos) << odd.error;
}

TEST(CpuEmit, EveryVectorWidthAndFastMath) {
  KernelText text{{{"x", "5x77xf32"}}, {{"y", "5x1xf32"}}, R"(
    %e = tcc.exp %x : tensor<5x77xf32>
    %g = tcc.gelu %x : tensor<5x77xf32>
    %a = tcc.add %e, %g : tensor<5x77xf32>
    %y = tcc.reduce_sum %a axes [1] : tensor<5x77xf32> -> tensor<5x1xf32>)"};
  std::vector<double> first;
  const std::pair<const char *, unsigned> targets[] = {{"native", 16}, {"native", 32}, {"native", 64}, {"x86-64", 16}};
  for (auto [cpu, bytes] : targets)
    for (bool fastMath : {false, true}) {
      cpu::EmitOptions options;
      options.target.cpu = cpu;
      options.target.vectorBytes = bytes;
      options.fastMath = fastMath;
      LoadedKernel kernel(text, options);
      ASSERT_EQ(kernel.error, "");
      std::vector<double> result = kernel.run(kernel.randomInputs())[0].data;
      if (first.empty())
        first = result;
      EXPECT_TRUE(allClose(result, first, 1e-5, 0)) << bytes << " bytes on " << cpu;
    }
}

} // namespace
