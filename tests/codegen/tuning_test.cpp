// What -O3 chooses by measuring: every choice gives the same bits, the choices are kept and come back, and a file that
// holds other ones is believed.
#include "codegen/compile_session.h"
#include "codegen/cpu/kernel_plan.h"
#include "kernel_runner.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executable.h"
#include "runtime/memory.h"
#include "runtime/tuning_file.h"
#include "tests/dialects.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include <filesystem>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

//===- choices -------------------------------------------------------------------------------------------------===//

/// GELU's slope times dy, in bf16, and its sums over the rows: a kernel whose columns are cut into tiles.
KernelText slopeAndColumnSums(int64_t rows, int64_t columns) {
  const std::string sizes = std::to_string(rows) + "x" + std::to_string(columns);
  return {{{"x0", sizes + "xbf16"}, {"dy0", sizes + "xbf16"}},
          {{"dx", sizes + "xbf16"}, {"db", "1x" + std::to_string(columns) + "xbf16"}},
          withTypes("%x = tcc.cast %x0 : !S -> !F\n%dy = tcc.cast %dy0 : !S -> !F\n%t = tcc.tanh %x : !F\n"
                    "%e = tcc.exp %t : !F\n%p = tcc.mul %e, %dy : !F\n%dx = tcc.cast %p : !F -> !S\n"
                    "%db = tcc.reduce_sum %dx axes [0] : !S -> !B",
                    {{"F", sizes + "xf32"}, {"S", sizes + "xbf16"}, {"B", "1x" + std::to_string(columns) + "xbf16"}})};
}

/// Softmax of x + bias: three passes over a row, which may keep x + bias and exp, or compute them again.
KernelText softmax(int64_t rows, int64_t columns) {
  const std::string sizes = std::to_string(rows) + "x" + std::to_string(columns);
  return {
      {{"x", sizes + "xf32"}, {"bias", std::to_string(columns) + "xf32"}},
      {{"y", sizes + "xf32"}},
      withTypes(
          "%bb = tcc.broadcast %bias : !V -> !F\n%a = tcc.add %x, %bb : !F\n%c = tcc.mul %a, %a : !F\n"
          "%m = tcc.reduce_max %c axes [1] : !F -> !R\n%mb = tcc.broadcast %m : !R -> !F\n"
          "%d = tcc.sub %c, %mb : !F\n%e = tcc.exp %d : !F\n%s = tcc.reduce_sum %e axes [1] : !F -> !R\n"
          "%sb = tcc.broadcast %s : !R -> !F\n%y = tcc.div %e, %sb : !F",
          {{"F", sizes + "xf32"}, {"R", std::to_string(rows) + "x1xf32"}, {"V", std::to_string(columns) + "xf32"}})};
}

/// One row: AdamW's first moment.
KernelText oneRow(int64_t columns) {
  const std::string size = std::to_string(columns) + "xf32";
  return {{{"m", size}, {"g", size}},
          {{"n", size}},
          withTypes("%b = tcc.constant dense<0.9> : !F\n%c = tcc.constant dense<0.1> : !F\n%p = tcc.mul %m, %b : !F\n"
                    "%q = tcc.mul %g, %c : !F\n%n = tcc.add %p, %q : !F",
                    {{"F", size}})};
}

/// Every tuning that can be reached by varying one number after the other.
std::vector<cpu::KernelTuning> allTunings(const KernelInfo &form, bool steady) {
  std::vector<cpu::KernelTuning> all{cpu::KernelTuning()};
  for (cpu::TunedNumber number : cpu::tunedNumbers)
    for (size_t i = 0, count = all.size(); i < count; ++i)
      llvm::append_range(all, cpu::variationsOf(form, all[i], number, steady, /*fastMath=*/false, /*threads=*/2));
  return all;
}

/// Whether the tensors, whose types belong to two contexts, have the same bits.
bool haveSameBits(const std::vector<RefTensor> &a, const std::vector<RefTensor> &b) {
  return llvm::equal(a, b, [](const RefTensor &one, const RefTensor &other) {
    return one.size() == other.size() &&
           std::memcmp(one.data.data(), other.data.data(), one.data.size() * sizeof(double)) == 0;
  });
}

TEST(Tuning, EveryChoiceHasTheSameBits) {
  const std::pair<KernelText, size_t> kernels[] = {{layerNorm(9, 200), 2},
                                                   {layerNormBackward(3, 5, 200), 2},
                                                   {slopeAndColumnSums(7, 1000), 4},
                                                   {slopeAndColumnSums(3, 4099), 8},
                                                   {softmax(5, 333), 2},
                                                   {softmax(6, 64), 2},
                                                   {oneRow(5003), 4}};
  size_t different = 0;
  for (const auto &[text, least] : kernels)
    for (const cpu::Target &target : runnableTargets())
      for (bool steady : {false, true}) {
        SCOPED_TRACE("cpu " + target.cpu + "\n" + text.module());
        cpu::EmitOptions options;
        options.target = target;
        options.threads = 1;
        options.steady = steady;
        const LoadedKernel plain(text, options);
        ASSERT_EQ(plain.error, "");
        const std::vector<RefTensor> inputs = plain.randomInputs();
        const std::vector<RefTensor> wanted = plain.run(inputs);
        const std::vector<cpu::KernelTuning> tunings = allTunings(plain.info, steady);
        EXPECT_GE(tunings.size(), least);
        for (const cpu::KernelTuning &tuning : tunings) {
          SCOPED_TRACE(tuning.text());
          const LoadedKernel tuned(text, options, tuning.text());
          ASSERT_EQ(tuned.error, "");
          different += tuned.launch != plain.launch;
          EXPECT_TRUE(haveSameBits(tuned.run(inputs), wanted));
          EXPECT_TRUE(haveSameBits(tuned.run(inputs, 1, /*reversed=*/true), wanted)) << "in pieces";
        }
      }
  EXPECT_GT(different, 10u) << "choices of items cut kernels otherwise";
}

TEST(Tuning, TextsAreReadBack) {
  EXPECT_EQ(cpu::KernelTuning().text(), "");
  const cpu::KernelTuning all{.keptCost = 3, .prefetchBytes = 1024, .wantedItems = 4};
  EXPECT_EQ(all.text(), "keep=3 items=4 prefetch=1024");
  EXPECT_EQ(cpu::KernelTuning::of(all.text()), all);
  EXPECT_EQ(cpu::KernelTuning::of(""), cpu::KernelTuning());
  for (const char *wrong : {"keep", "keep=x", "items=0", "prefetch=-1", "prefetch=99999999", "width=3"})
    EXPECT_FALSE(cpu::KernelTuning::of(wrong)) << wrong;
  cpu::EmitOptions options;
  options.threads = 1;
  EXPECT_HAS(LoadedKernel(oneRow(64), options, "width=3").error, "'width=3' is no choice for a CPU's kernel");
}

/// With approximations LLVM may join the operations of a value otherwise where it is computed twice.
TEST(Tuning, WhatIsKeptIsNotVariedWithFastMath) {
  cpu::EmitOptions options;
  options.threads = 1;
  const KernelInfo form = LoadedKernel(softmax(6, 64), options).info;
  using enum cpu::TunedNumber;
  EXPECT_EQ(cpu::variationsOf(form, {}, keptCost, false, false, 2).size(), 1u);
  EXPECT_TRUE(cpu::variationsOf(form, {}, keptCost, false, true, 2).empty());
}

/// Enough items for all threads.
TEST(Tuning, ItemsAreNoFewerThanThreads) {
  cpu::EmitOptions options;
  options.threads = 1;
  const KernelInfo form = LoadedKernel(slopeAndColumnSums(3, 4096), options).info;
  for (int threads : {1, 2, 5, 8, 100})
    for (const cpu::KernelTuning &tuning :
         cpu::variationsOf(form, {}, cpu::TunedNumber::wantedItems, false, false, threads))
      EXPECT_GE(cpu::launchOf(form, tuning).extent, threads);
  EXPECT_FALSE(cpu::variationsOf(form, {}, cpu::TunedNumber::wantedItems, false, false, 2).empty());
  EXPECT_TRUE(cpu::variationsOf(form, {}, cpu::TunedNumber::wantedItems, false, false, 100).empty());
}

//===- steps ---------------------------------------------------------------------------------------------------===//

class TunedStep : public ::testing::Test {
protected:
  TunedStep() : context(MLIRContext::Threading::DISABLED) {
    loadDialects(context);
    options.threads = 2;
    options.pipeline.level = 3;
    options.tuning = folder.path("step.tcctune");
    options.tuningSeconds = 5;
  }

  /// Softmax over rows of `rows` x 1024, which moves more than the least that is measured where there are 300.
  runtime::Artefact compile(const CompileOptions &with, int64_t rows = 300) {
    const std::string text = withTypes("func.func @step(%x: !F) -> !F {\n  %y = tcc.softmax %x : !F\n"
                                       "  return %y : !F\n}\n",
                                       {{"F", std::to_string(rows) + "x1024xf32"}});
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    EXPECT_TRUE(module);
    runtime::Expected<CompileSession> session = CompileSession::open(with);
    EXPECT_TRUE(session);
    runtime::Expected<runtime::Artefact> artefact = session->artefact(std::move(module));
    report = session->report();
    error = artefact ? "" : artefact.error().message();
    return artefact ? std::move(*artefact) : runtime::Artefact();
  }

  /// What the step gives for one input.
  static std::string run(const runtime::Artefact &artefact) {
    auto executable = runtime::Executable::load(artefact, {.threads = 2});
    EXPECT_TRUE(executable) << executable.error().message();
    auto input = runtime::TensorStorage::zeros((*executable)->plan().inputs.front());
    auto output = runtime::TensorStorage::zeros((*executable)->plan().outputs.front());
    for (size_t i = 0; i < input->as<float>().size(); ++i)
      input->as<float>()[i] = static_cast<float>(i * 7919 % 1000) / 300;
    const runtime::ConstTensorRef given[] = {input->ref()};
    const runtime::TensorRef results[] = {output->ref()};
    EXPECT_FALSE((*executable)->run(given, results, {}));
    return {static_cast<const char *>(output->data()), static_cast<size_t>(output->bytes())};
  }

  /// The keys of the file's choices for kernels.
  std::vector<std::string> keys() {
    std::vector<std::string> found;
    const std::string text = readAll(options.tuning);
    for (size_t at = text.find("\"kernel "); at != std::string::npos; at = text.find("\"kernel ", at + 1))
      found.push_back(text.substr(at + 1, text.find('"', at + 1) - at - 1));
    return found;
  }

  /// The file with one choice for the step's kernel.
  void choose(const std::string &choice) {
    const std::string key = keys().at(0);
    std::filesystem::remove(options.tuning);
    auto file = runtime::TuningFile::open(options.tuning);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->addChoice(key, choice));
  }

  TemporaryFolder folder;
  MLIRContext context;
  CompileOptions options;
  CompileReport report;
  std::string error;
};

TEST_F(TunedStep, ChoicesAreMeasuredOnceAndKept) {
  const runtime::Artefact first = compile(options);
  ASSERT_EQ(error, "");
  EXPECT_HAS(report.tuned, "measured 1 kernels in ");
  ASSERT_EQ(keys().size(), 1u);
  const std::string before = readAll(options.tuning);
  const runtime::Artefact second = compile(options);
  EXPECT_EQ(report.tuned.find("measured"), std::string::npos) << report.tuned;
  EXPECT_HAS(report.tuned, "choices for 1 kernels were known");
  EXPECT_EQ(*runtime::serializeArtefact(first), *runtime::serializeArtefact(second));
  EXPECT_EQ(readAll(options.tuning), before);
  // Below -O3 nothing is measured, said or written, and the bits are the same.
  CompileOptions plain = options;
  plain.pipeline.level = 2;
  plain.tuning = folder.path("none");
  const runtime::Artefact untuned = compile(plain);
  EXPECT_EQ(report.tuned, "");
  EXPECT_FALSE(untuned.metadata.contains("tuning"));
  EXPECT_FALSE(std::filesystem::exists(plain.tuning));
  EXPECT_TRUE(run(untuned) == run(first));
}

TEST_F(TunedStep, AChoiceOfTheFileIsTaken) {
  const std::string plain = run(compile(options));
  CompileOptions level2 = options;
  level2.pipeline.level = 2;
  const std::string code = compile(level2).targets.front().code.front();
  choose("");
  EXPECT_EQ(compile(options).targets.front().code.front(), code) << "the default";
  options.tuningSeconds = 0;
  choose("prefetch=512");
  options.remarks = true;
  const runtime::Artefact tuned = compile(options);
  EXPECT_NE(tuned.targets.front().code.front(), code);
  EXPECT_TRUE(run(tuned) == plain);
  EXPECT_HAS(report.tuned, "choices for 1 kernels were known, 1 of them other than the default");
  EXPECT_TRUE(llvm::any_of(report.remarks, [](const Remark &remark) {
    return remark.pass == "tuning" && remark.text.find("prefetch=512") != std::string::npos;
  })) << "a remark says so";
  choose("width=3");
  compile(options);
  EXPECT_HAS(error, "tuning file `" + options.tuning + "`: kernel ");
  EXPECT_HAS(error, " is 'width=3', which is no choice for a kernel");
}

TEST_F(TunedStep, NothingIsMeasuredWithoutTimeOrForFewBytes) {
  options.tuningSeconds = 0;
  compile(options);
  EXPECT_EQ(report.tuned, "no time was left for 1 kernels");
  EXPECT_TRUE(keys().empty());
  options.tuningSeconds = 5;
  compile(options, 4);
  EXPECT_EQ(report.tuned, "");
  EXPECT_EQ(error, "");
  options.targetName = "cpu:x86-64";
  compile(options);
  EXPECT_HAS(report.tuned, "nothing is tuned: the code is for cpu:x86-64, which need not be this machine's CPU");
}

/// A step that is kept on disk has its choices with it; a file that has other ones is believed.
TEST_F(TunedStep, KeptStepsAgreeWithTheFile) {
  options.cache = FileCache(folder.path("cache"));
  CompileOptions withoutFile = options;
  withoutFile.tuning = "";
  const runtime::Artefact first = compile(withoutFile);
  EXPECT_HAS(report.cache, "miss: ");
  EXPECT_TRUE(std::filesystem::exists(folder.path("cache/kernels.tcctune")));
  compile(withoutFile);
  EXPECT_HAS(report.cache, "hit: ");
  // The project's file gets what the kept step has.
  EXPECT_EQ(*runtime::serializeArtefact(compile(options)), *runtime::serializeArtefact(first));
  EXPECT_HAS(report.cache, "hit: ");
  ASSERT_EQ(keys().size(), 1u);
  choose("prefetch=256");
  const runtime::Artefact other = compile(options);
  EXPECT_EQ(report.cache, "miss: the tuning file has other choices than the kept step");
  EXPECT_NE(*runtime::serializeArtefact(other), *runtime::serializeArtefact(first));
  EXPECT_TRUE(run(other) == run(first));
  EXPECT_EQ(*runtime::serializeArtefact(compile(options)), *runtime::serializeArtefact(other));
  EXPECT_HAS(report.cache, "hit: ");
  // A file beside the cache that is no tuning file fails no job.
  ASSERT_FALSE(FileCache(folder.path("cache")).clear());
  std::ofstream(folder.path("cache/kernels.tcctune")) << "no JSON";
  compile(withoutFile);
  EXPECT_EQ(error, "");
  EXPECT_HAS(report.tuned, "the choices are not kept: tuning file `" + folder.path("cache/kernels.tcctune"));
  EXPECT_EQ(readAll(folder.path("cache/kernels.tcctune")), "no JSON");
}

} // namespace
