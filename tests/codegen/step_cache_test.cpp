// Compiled steps on disk: an entry gives what compiling gives, with the caller's places; all that code depends on
// changes the key; and many processes compile a step once.
#include "codegen/cpu/shared_code.h"
#include "codegen/step_cache.h"
#include "codegen/targets.h"
#include "ir/names.h"
#include "mlir/Parser/Parser.h"
#include "runtime/files.h"
#include "tests/environment.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include "llvm/Support/FormatVariadic.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace tcc::test {
namespace {

namespace fs = std::filesystem;

/// A step whose two lines stand at the given places.
std::string stepText(const std::string &file, int first, int second, const std::string &name = "act",
                     const std::string &factor = "2.0") {
  auto place = [&](int line) { return "loc(\"" + name + "\"(\"" + file + "\":" + std::to_string(line) + ":3))"; };
  return "func.func @step(%x: tensor<4x6xf32> {tcc.name = \"x\"}) -> (tensor<4x6xf32> {tcc.name = \"y\"}) {\n"
         "  %two = tcc.constant dense<" +
         factor + "> : tensor<4x6xf32> " + place(first) +
         "\n"
         "  %e = tcc.exp %x : tensor<4x6xf32> " +
         place(first) +
         "\n"
         "  %p = tcc.mul %e, %two : tensor<4x6xf32> " +
         place(second) +
         "\n"
         "  return %p : tensor<4x6xf32>\n}\n";
}

/// A step around a custom op with this code.
std::string custom(const std::string &code) {
  return "func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
         "  %y = tcc.custom \"square\" (%a = %x : tensor<4xf32>) -> tensor<4xf32> attributes {" +
         code +
         "} {\n"
         "    %s = tcc.mul %a, %a : tensor<4xf32>\n    tcc.yield %s : tensor<4xf32>\n  }\n"
         "  func.return %y : tensor<4xf32>\n}\n";
}

class StepCacheTest : public ::testing::Test {
protected:
  StepCacheTest() : context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    options.threads = 2;
    options.cache = FileCache(base);
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    EXPECT_TRUE(module) << text;
    return module;
  }

  /// The artefact's bytes, and what was said of it.
  std::string compile(OwningOpRef<ModuleOp> module, const CompileOptions &with) {
    runtime::Expected<CompileSession> session = CompileSession::open(with);
    EXPECT_TRUE(session) << session.error().message();
    runtime::Expected<runtime::Artefact> artefact = session->artefact(std::move(module));
    report = session->report();
    EXPECT_TRUE(artefact) << artefact.error().message();
    return artefact ? *runtime::serializeArtefact(*artefact) : "";
  }
  std::string compile(const std::string &text) { return compile(parse(text), options); }
  std::string compileAlone(const std::string &text) {
    CompileOptions alone = options;
    alone.cache = {};
    return compile(parse(text), alone);
  }

  std::string fileOf(const std::string &text, const CompileOptions &with) {
    auto target = makeTarget(with.targetName, with.code, with.threads);
    return StepCache(*parse(text), with, **target).file();
  }

  MLIRContext context;
  const TemporaryFolder parent;
  const std::string base = parent / "cache";
  CompileOptions options;
  CompileReport report;
};

TEST_F(StepCacheTest, AHitIsWhatCompilingGives) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const OwningOpRef<ModuleOp> graph = generateGraph(context, seed);
    auto copy = [&] { return OwningOpRef<ModuleOp>(cast<ModuleOp>(graph.get()->clone())); };
    CompileOptions alone = options;
    alone.cache = {};
    const std::string bytes = compile(copy(), alone);
    EXPECT_EQ(report.cache, "not used: off");
    EXPECT_EQ(compile(copy(), options), bytes);
    EXPECT_FALSE(report.fromCache);
    EXPECT_TRUE(StringRef(report.cache).starts_with("miss: ")) << report.cache;
    const CompileReport made = report;
    EXPECT_EQ(compile(copy(), options), bytes) << "seed " << seed;
    EXPECT_TRUE(report.fromCache);
    EXPECT_TRUE(StringRef(report.cache).starts_with("hit: " + base)) << report.cache;
    EXPECT_EQ(report.pipeline.capturedOps, made.pipeline.capturedOps);
    EXPECT_EQ(report.pipeline.kernels, made.pipeline.kernels);
    EXPECT_EQ(report.pipeline.matmuls, made.pipeline.matmuls);
    EXPECT_EQ(report.pipeline.arenaBytes, made.pipeline.arenaBytes);
    EXPECT_EQ(report.compiledKernels, made.compiledKernels);
    EXPECT_EQ(report.plannedBytes, made.plannedBytes);
    EXPECT_TRUE(report.pipeline.passes.empty()) << "no pass ran";
  }
}

TEST_F(StepCacheTest, PlacesAreTheCallersOwn) {
  compile(stepText("model.cpp", 10, 12));
  const std::string moved = stepText("other.cpp", 200, 207);
  const std::string bytes = compile(moved);
  EXPECT_TRUE(report.fromCache) << report.cache;
  EXPECT_EQ(bytes, compileAlone(moved));
  EXPECT_NE(bytes.find("other.cpp"), std::string::npos);
  EXPECT_EQ(bytes.find("model.cpp"), std::string::npos);
  // On one line, kernels have one place where they had two.
  const std::string oneLine = stepText("other.cpp", 5, 5);
  EXPECT_EQ(compile(oneLine), compileAlone(oneLine));
  EXPECT_FALSE(report.fromCache);
}

/// Labels, names that callers bind by, and profiles: a hit's bytes are those of compiling the renamed graph.
TEST_F(StepCacheTest, NamesAreTheCallersOwn) {
  compile(stepText("model.cpp", 10, 12));
  std::string renamed = stepText("model.cpp", 10, 12, "block.2.ffn");
  for (const auto &[from, to] : {std::pair("\"x\"", "\"tokens\""), {"\"y\"", "\"loss\""}, {"@step", "@train"}})
    for (size_t at = 0; (at = renamed.find(from, at)) != std::string::npos; at += std::strlen(to))
      renamed.replace(at, std::strlen(from), to);
  compile(renamed);
  EXPECT_EQ(report.cache, "miss: names differ") << "another number of words";
  const std::string again = std::regex_replace(renamed, std::regex("block.2.ffn"), "layer.2.x");
  const std::string bytes = compile(again);
  EXPECT_TRUE(report.fromCache) << report.cache;
  EXPECT_EQ(bytes, compileAlone(again));
  EXPECT_HAS(bytes, "\"layer.2.x\"");
  EXPECT_LACKS(bytes, "ffn");
  EXPECT_HAS(bytes, "\"tokens\"");
  const std::string flagged = std::regex_replace(again, std::regex("tokens"), "ids");
  CompileOptions sized = options;
  sized.pipeline.shapes["tokens"] = {4, 6};
  compile(parse(again), sized);
  sized.pipeline.shapes = {{"ids", {4, 6}}};
  const std::string idBytes = compile(parse(flagged), sized);
  EXPECT_TRUE(report.fromCache) << report.cache;
  EXPECT_EQ(idBytes, compileAlone(flagged));
}

/// Every name of graphs of many ops, states and gradients, by another of as many words.
TEST_F(StepCacheTest, RenamedGraphsAreFound) {
  const StringRef keptWords[] = {"grad", "bias"};
  auto other = [&](StringRef name, StringRef prefix) {
    SmallVector<StringRef> words;
    name.split(words, '.');
    std::string text;
    for (StringRef word : words) {
      const bool keeps = llvm::all_of(word, llvm::isDigit) || llvm::is_contained(keptWords, word) ||
                         context.isOperationRegistered(("tcc." + word).str());
      text += (text.empty() ? "" : ".") + (keeps ? "" : prefix.str()) + word.str();
    }
    return text;
  };
  auto renamed = [&](ModuleOp graph, StringRef prefix) {
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(graph->clone()));
    auto renamedLoc = [&](Location loc) { return nameOf(loc).empty() ? loc : named(loc, other(nameOf(loc), prefix)); };
    copy->walk([&](Operation *op) {
      op->setLoc(renamedLoc(op->getLoc()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            argument.setLoc(renamedLoc(argument.getLoc()));
    });
    Builder builder(&context);
    func::FuncOp function = functionOf(*copy);
    function.setSymName(prefix.str() + function.getName().str());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr))
        function.setArgAttr(i, nameAttr, builder.getStringAttr(prefix + name.getValue()));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (StringRef attribute : {nameAttr, updatesAttr})
        if (auto name = function.getResultAttrOfType<StringAttr>(i, attribute))
          function.setResultAttr(i, attribute, builder.getStringAttr(prefix + name.getValue()));
    return copy;
  };
  /// Each op has a name, some of them in scopes with numbers.
  auto named = [&](OwningOpRef<ModuleOp> graph, uint64_t seed) {
    int64_t number = 0;
    graph->walk([&](Operation *op) {
      const StringRef own = op->getName().stripDialect();
      const std::string word = llvm::formatv("part{0}", (seed + static_cast<uint64_t>(number)) % 3);
      if (op->getNumResults() > 0 && ++number % 5 != 0)
        op->setLoc(
            tcc::named(op->getLoc(), llvm::formatv("h.{0}.{1}.{2}", number % 4, word, number % 3 ? own : "u").str()));
    });
    return graph;
  };
  CompileOptions alone = options;
  alone.cache = {};
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const OwningOpRef<ModuleOp> graph = named(generateGraph(context, seed), seed);
    compile(renamed(*graph, "first_"), options);
    EXPECT_FALSE(report.fromCache);
    const std::string bytes = compile(renamed(*graph, "a"), options);
    EXPECT_TRUE(report.fromCache) << "seed " << seed << ": " << report.cache;
    EXPECT_EQ(bytes, compile(renamed(*graph, "a"), alone)) << "seed " << seed;
  }
}

/// Two names that become one, one that becomes two, words of the compiler: labels would be made otherwise.
TEST_F(StepCacheTest, NamesThatRelateOtherwiseAreAnotherStep) {
  auto text = [](const std::string &first, const std::string &second) {
    return "func.func @step(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {\n"
           "  %e = tcc.exp %x : tensor<4x6xf32> loc(\"" +
           first + "\")\n  %p = tcc.mul %e, %e : tensor<4x6xf32> loc(\"" + second +
           "\")\n  return %p : tensor<4x6xf32>\n}\n";
  };
  std::set<std::string> files;
  for (const auto &[first, second] : std::initializer_list<std::pair<const char *, const char *>>{{"one", "two"},
                                                                                                  {"one", "one"},
                                                                                                  {"fc1", "fc2"},
                                                                                                  {"a.one", "a.two"},
                                                                                                  {"a.one", "b.two"},
                                                                                                  {"1.one", "1.two"},
                                                                                                  {"1.one", "2.two"},
                                                                                                  {"grad", "two"},
                                                                                                  {"exp", "two"},
                                                                                                  {"mul", "two"},
                                                                                                  {"one", "one.grad"}})
    EXPECT_TRUE(files.insert(fileOf(text(first, second), options)).second) << first << " " << second;
  EXPECT_EQ(fileOf(text("in1", "in2"), options), fileOf(text("fc7", "fc3"), options));
  EXPECT_EQ(fileOf(text("one", "two"), options), fileOf(text("up", "down"), options));
}

/// Each input of the key, flipped once.
TEST_F(StepCacheTest, AllThatCodeDependsOnIsInTheKey) {
  const std::string text = stepText("model.cpp", 10, 12);
  std::set<std::string> files{fileOf(text, options)};
  auto expectOther = [&](const std::string &what, const std::string &of, auto change) {
    CompileOptions changed = options;
    change(changed);
    EXPECT_TRUE(files.insert(fileOf(of, changed)).second) << what;
  };
  auto nothing = [](CompileOptions &) {};
  expectOther("literal", stepText("model.cpp", 10, 12, "act", "3.0"), nothing);
  expectOther("lines", stepText("model.cpp", 10, 10), nothing);
  auto replaced = [&](StringRef from, StringRef to) {
    std::string other = text;
    for (size_t at = 0; (at = other.find(from, at)) != std::string::npos; at += to.size())
      other.replace(at, from.size(), to);
    EXPECT_NE(other, text);
    return other;
  };
  expectOther("shape", replaced("4x6", "4x7"), nothing);
  expectOther("type", replaced("xf32", "xbf16"), nothing);
  expectOther("op", replaced("tcc.exp", "tcc.log"), nothing);
  expectOther("state", replaced("{tcc.name = \"x\"}", "{tcc.name = \"x\", tcc.state}"), nothing);
  expectOther("threads", text, [](CompileOptions &o) { o.threads = 3; });
  expectOther("level", text, [](CompileOptions &o) { o.pipeline.level = 1; });
  expectOther("a pass on", text, [](CompileOptions &o) { o.pipeline.passes["simplify"] = true; });
  expectOther("a pass off", text, [](CompileOptions &o) { o.pipeline.passes["simplify"] = false; });
  expectOther("products", text, [](CompileOptions &o) { o.pipeline.products = ProductType::bf16; });
  expectOther("f16 products", text, [](CompileOptions &o) { o.pipeline.products = ProductType::f16; });
  expectOther("padding", text, [](CompileOptions &o) { o.pipeline.padding = 8; });
  expectOther("no padding", text, [](CompileOptions &o) { o.pipeline.padding = 0; });
  expectOther("recomputation", text, [](CompileOptions &o) { o.pipeline.recomputation = cheapRecomputation; });
  expectOther("of blocks", text, [](CompileOptions &o) { o.pipeline.recomputation = blockRecomputation; });
  expectOther("of borders", text, [](CompileOptions &o) { o.pipeline.recomputation = fullRecomputation; });
  expectOther("a memory limit", text, [](CompileOptions &o) { o.memoryLimit = 1 << 30; });
  expectOther("a limit that nothing is computed again for", text, [](CompileOptions &o) {
    o.memoryLimit = 1 << 30;
    o.recomputesToFit = false;
  });
  expectOther("least memory", text, [](CompileOptions &o) { o.leastMemory = true; });
  for (const PassInfo &pass : pipelineTable())
    for (bool on : {false, true})
      if (StringRef(pass.name) != "simplify")
        expectOther(pass.name, text, [&](CompileOptions &o) { o.pipeline.passes[pass.name] = on; });
  for (bool fuses : {false, true})
    expectOther("the optimizer's kernels", text, [&](CompileOptions &o) { o.pipeline.fusesOptimizer = fuses; });
  const RankShare shares[] = {{2, 0}, {3, 0}, {2, 1}, {2, 0, true}, {2, 0, false, 1}, {2, 0, false, 2}};
  for (const RankShare &share : shares)
    expectOther("ranks", text, [&](CompileOptions &o) { o.pipeline.ranks = share; });
  expectOther("what ranks exchange at once", text, [](CompileOptions &o) {
    o.pipeline.ranks.count = 2;
    o.pipeline.bucketBytes = 4096;
  });
  expectOther("a size", text, [](CompileOptions &o) { o.pipeline.shapes["x"] = {4, 6}; });
  expectOther("other sizes", text, [](CompileOptions &o) { o.pipeline.shapes["x"] = {46}; });
  expectOther("fast math", text, [](CompileOptions &o) { o.code.fastMath = true; });
  expectOther("steady sums", text, [](CompileOptions &o) { o.code.steady = true; });
  expectOther("CPU", text, [](CompileOptions &o) { o.targetName = "cpu:x86-64"; });
  expectOther("other CPU", text, [](CompileOptions &o) { o.targetName = "cpu:x86-64-v2"; });
  expectOther("target", text, [](CompileOptions &o) { o.targetName = "cuda:sm_80"; });
  expectOther("threads of a GPU's step", text, [](CompileOptions &o) { o.targetName = "cuda:sm_80", o.threads = 3; });
  expectOther("architecture", text, [](CompileOptions &o) { o.targetName = "cuda:sm_90a"; });
  // What code does not depend on.
  CompileOptions same = options;
  same.code.compileThreads = 1;
  same.allowCustomCode = false;
  EXPECT_EQ(fileOf(text, same), fileOf(text, options));
  EXPECT_EQ(fileOf(stepText("elsewhere.cpp", 1, 2, "other"), options), fileOf(text, options));
  for (const std::string &called :
       {replaced("\"x\"", "\"z\""), replaced("\"y\"", "\"z\""), replaced("@step", "@other")})
    EXPECT_EQ(fileOf(called, options), fileOf(text, options));
}

TEST_F(StepCacheTest, AMissSaysWhatDiffers) {
  const std::string text = stepText("model.cpp", 10, 12);
  compile(text);
  EXPECT_EQ(report.cache, "miss: no step was kept before");
  CompileOptions other = options;
  other.pipeline.level = 1;
  compile(parse(text), other);
  EXPECT_EQ(report.cache, "miss: flags differ: -O2 → -O1");
  other = options;
  other.threads = 1;
  compile(parse(text), other);
  EXPECT_EQ(report.cache, "miss: threads differ: 2 → 1");
  std::string wider = text;
  for (size_t at = 0; (at = wider.find("4x6", at)) != std::string::npos;)
    wider.replace(at, 3, "4x9");
  compile(wider);
  EXPECT_EQ(report.cache, "miss: arguments differ: x:4x6xf32 → x:4x9xf32");
  compile(stepText("model.cpp", 10, 12, "act", "5.0"));
  EXPECT_EQ(report.cache, "miss: graph differs");
}

TEST_F(StepCacheTest, SomeStepsAreNotKept) {
  const std::string text = stepText("model.cpp", 10, 12);
  auto expectNotUsed = [&](const CompileOptions &with, const std::string &of, StringRef why) {
    for (int i = 0; i < 2; ++i) {
      compile(parse(of), with);
      EXPECT_FALSE(report.fromCache);
      EXPECT_EQ(report.cache, ("not used: " + why).str());
    }
  };
  CompileOptions changed = options;
  changed.pipeline.verifyEach = true;
  expectNotUsed(changed, text, "what was asked for is said while passes run");
  changed = options;
  changed.remarks = true;
  expectNotUsed(changed, text, "what was asked for is said while passes run");
  changed = options;
  auto own = makeTarget("cpu", {}, 2);
  changed.target = own->get();
  expectNotUsed(changed, text, "the target is the caller's own");
  const auto target = makeTarget("cpu", {}, 2);
  EXPECT_EQ(
      StepCache(*parse(custom("cuda = \"#include <one.h>\\0AKERNEL(square, 1, 1)() {}\", cuda_kernel = \"square\", "
                              "cuda_grid = array<i64: 1, 1, 1>, cuda_block = array<i64: 1, 1, 1>")),
                options, **target)
          .refusal(),
      "a custom op's text includes files, which may change");
  EXPECT_HAS(StepCache(*parse(custom("library = \"/not/there.so\", symbol = \"square\"")), options, **target).refusal(),
             "/not/there.so");
  EXPECT_EQ(StepCache(*parse(custom("")), options, **target).refusal(), "") << "a graph alone";
  EXPECT_EQ(options.cache.usage()[1].entries, 0);
}

/// A library counts by where it is and what is in it, CUDA text by itself.
TEST_F(StepCacheTest, CodeOfCustomOpsIsInTheKey) {
  const std::string file = parent / "square.so", other = parent / "copy.so";
  const std::string step = custom("library = \"" + file + "\", symbol = \"square\"");
  std::ofstream(file) << "one";
  std::ofstream(other) << "one";
  const std::string first = fileOf(step, options);
  EXPECT_NE(fileOf(custom("library = \"" + other + "\", symbol = \"square\""), options), first);
  EXPECT_NE(fileOf(custom("library = \"" + file + "\", symbol = \"cube\""), options), first);
  std::ofstream(file) << "two";
  EXPECT_NE(fileOf(step, options), first);
  std::ofstream(file) << "one";
  EXPECT_EQ(fileOf(step, options), first);
  auto text = [&](const std::string &body) {
    return custom("cuda = \"KERNEL(square, 1, 1)() {" + body +
                  "}\", cuda_kernel = \"square\", cuda_grid = array<i64: 1, 1, 1>, cuda_block = array<i64: 1, 1, 1>");
  };
  EXPECT_NE(fileOf(text(""), options), fileOf(text(";"), options));
}

/// Attention's functions are the same for all lengths; they are on disk, and this process remembers them.
TEST_F(StepCacheTest, AttentionsCodeIsSharedByShapes) {
  auto attention = [](const std::string &length) {
    const std::string type = "tensor<2x" + length + "x3x16xf32>";
    return "func.func @main(%q: " + type + ", %k: " + type + ", %v: " + type + ") -> " + type +
           " {\n  %o:2 = tcc.flash_attention %q, %k, %v scale 0.25 : (" + type + ", " + type + ", " + type + ") -> (" +
           type + ", tensor<2x3x" + length + "xf32>)\n  func.return %o#0 : " + type + "\n}\n";
  };
  const std::string shorter = attention("32"), longer = attention("48");
  EXPECT_EQ(compile(shorter), compileAlone(shorter));
  cpu::SharedCode::forget();
  compile(longer);
  EXPECT_FALSE(report.fromCache);
  EXPECT_EQ(report.emitted, "1 of 1 kernels were compiled before");
  CompileOptions fresh = options;
  fresh.cache = {};
  const std::string bytes = compile(parse(attention("80")), fresh);
  EXPECT_EQ(report.emitted, "1 of 1 kernels were compiled before");
  EXPECT_EQ(compile(attention("80")), bytes) << "with code that was there";
  CompileOptions other = options;
  other.targetName = "cpu:x86-64";
  compile(parse(longer), other);
  EXPECT_EQ(report.emitted, "") << "for another CPU";
}

/// An entry whose bytes are whole and whose content is nothing that this build wrote, and one whose file is damaged.
TEST_F(StepCacheTest, AnEntryOfAnotherContentIsMadeAnew) {
  const std::string text = stepText("model.cpp", 10, 12), bytes = compileAlone(text);
  compile(text);
  const std::string entry = *runtime::readFile(fileOf(text, options));
  const std::string payload = entry.substr(40, entry.size() - 72);
  const auto target = makeTarget("cpu", {}, options.threads);
  const StepCache step(*parse(text), options, **target);
  uint64_t random = 1;
  const int64_t count = fromEnvironment("TCC_FULL", 0) ? 2000 : 60;
  for (int64_t i = 0; i < count; ++i) {
    std::string damaged = payload;
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t at = (random >> 20) % damaged.size();
    if (i % 3 == 0)
      damaged.resize(at);
    else
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random >> 60) % 8));
    ASSERT_FALSE(step.storeBytes(damaged));
    const std::string again = compile(text);
    ASSERT_EQ(again, bytes) << "damage " << i << " at " << at << ", " << report.cache;
    damaged = entry;
    if (i % 3 == 0)
      damaged.resize(at);
    else
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << i % 8));
    std::ofstream(fileOf(text, options), std::ios::binary) << damaged;
    ASSERT_EQ(compile(text), bytes);
    ASSERT_EQ(report.cache, "miss: the entry was damaged and is removed") << "damage " << i << " at " << at;
  }
}

TEST_F(StepCacheTest, ManyProcessesCompileAStepOnce) {
  auto inChildren = [&](auto textOf) {
    std::vector<pid_t> children;
    for (int child = 0; child < 8; ++child) {
      const pid_t pid = fork();
      if (pid == 0) {
        const std::string text = textOf(child);
        const bool right = compile(text) == compileAlone(text);
        compile(text);
        _exit(right && report.fromCache ? 0 : 1);
      }
      children.push_back(pid);
    }
    for (pid_t child : children) {
      int status = 1;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  };
  inChildren([](int) { return stepText("model.cpp", 10, 12); });
  EXPECT_EQ(options.cache.usage()[1].entries, 1);
  EXPECT_LE(options.cache.usage()[1].misses, 1) << "the others have waited for the first";
  inChildren([](int child) { return stepText("model.cpp", 10, 12, "act", std::to_string(child) + ".5"); });
  EXPECT_EQ(options.cache.usage()[1].entries, 9);
}

/// Those that wait for one that compiles take what it made.
TEST_F(StepCacheTest, WhoWaitsDoesNotCompile) {
  const std::string text = stepText("model.cpp", 10, 12);
  const auto target = makeTarget("cpu", {}, options.threads);
  const StepCache step(*parse(text), options, **target);
  int held[2];
  ASSERT_EQ(pipe(held), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    (void)!read(held[0], &byte, 1);
    compile(text);
    _exit(report.fromCache ? 0 : 1);
  }
  std::optional<FileCache::Turn> turn(step.wait());
  ASSERT_EQ(write(held[1], "x", 1), 1);
  CompileOptions alone = options;
  alone.cache = {};
  runtime::Expected<CompileSession> session = CompileSession::open(alone);
  usleep(50000);
  auto artefact = session->artefact(parse(text));
  ASSERT_FALSE(step.store(*artefact, session->report()));
  turn.reset();
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace tcc::test
