// Attention's emitted kernels, forward and backward, against the interpreter: odd shapes, masks, packed operands, every
// kind of CPU that this one can run, any number of threads; each value in memory of its own that ends where it ends.
#include "codegen/cpu/attention.h"
#include "runtime/cpu.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/graph_check.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

using cpu::AttentionNumber;

struct Sizes {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, keyHeads = 1, width = 16;
  std::string mask = {}, element = "f32"; // "diagonal D window W" or less
  double scale = 0.25;
  bool packed = false;      // q, k and v are parts of one tensor [batch, queries, 3, heads, width]
  double rate = 0;          // of dropout
  std::string seed = "i32"; // its type
  bool hasFirst = false;
};

std::string typeText(std::initializer_list<int64_t> shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

/// The dropout of a call, and the types of the operands that it adds.
std::pair<std::string, std::string> dropoutText(const Sizes &s) {
  if (s.rate == 0)
    return {};

  return {" rate " + std::to_string(s.rate) + " stream 4294967299 seed %seed" + (s.hasFirst ? " first %first" : ""),
          ", tensor<" + s.seed + ">" + (s.hasFirst ? ", tensor<i32>" : "")};
}

/// Forward and backward: of (q, k, v, dOut), or of (qkv, dOut); then a dropout's seed and `first`.
std::string graphText(const Sizes &s) {
  std::string q = typeText({s.batch, s.queries, s.heads, s.width}, s.element),
              k = typeText({s.batch, s.keys, s.keyHeads, s.width}, s.element),
              lse = typeText({s.batch, s.heads, s.queries}, "f32"), text = "func.func @main(";
  auto [dropout, types] = dropoutText(s);
  std::string more = s.rate == 0 ? "" : ", %seed: tensor<" + s.seed + ">";
  more += s.hasFirst ? ", %first: tensor<i32>" : "";
  if (s.packed) {
    int64_t all = 3 * s.heads;
    std::string packed = typeText({s.batch, s.queries, all, s.width}, s.element);
    text +=
        "%qkv: " + packed + ", %g: " + q + more + ") -> (" + q + ", " + lse + ", " + q + ", " + k + ", " + k + ") {\n";
    for (int part = 0; part < 3; ++part) {
      auto corner = [&](int64_t head, bool end) {
        return "[" + std::to_string(end ? s.batch : 0) + ", " + std::to_string(end ? s.queries : 0) + ", " +
               std::to_string(head) + ", " + std::to_string(end ? s.width : 0) + "]";
      };
      text += "  %" + std::string(1, "qkv"[part]) + " = tcc.slice %qkv " + corner(part * s.heads, false) + " to " +
              corner((part + 1) * s.heads, true) + " : " + packed + " -> " + q + "\n";
    }
  } else {
    text += "%q: " + q + ", %k: " + k + ", %v: " + k + ", %g: " + q + more + ") -> (" + q + ", " + lse + ", " + q +
            ", " + k + ", " + k + ") {\n";
  }
  std::string mask = s.mask + " scale " + std::to_string(s.scale) + dropout;
  return text + "  %r:2 = tcc.flash_attention %q, %k, %v " + mask + " : (" + q + ", " + k + ", " + k + types +
         ") -> (" + q + ", " + lse + ")\n  %d:3 = tcc.flash_attention_backward %q, %k, %v, %r#0, %r#1, %g " + mask +
         " : (" + q + ", " + k + ", " + k + ", " + q + ", " + lse + ", " + q + types + ") -> (" + q + ", " + k + ", " +
         k + ")\n  return %r#0, %r#1, %d#0, %d#1, %d#2 : " + q + ", " + lse + ", " + q + ", " + k + ", " + k + "\n}";
}

/// Integers are seeds and firsts: any of 32 bits, more where the type has them.
RefTensor randomInput(RankedTensorType type, uint64_t seed) {
  double most = type.getElementType().isInteger(64) ? 1e15 : 2e9;
  return isa<FloatType>(type.getElementType()) ? randomTensor(type, seed) : randomTensor(type, seed, -most, most);
}

/// The graphs of some sizes, compiled as one, so that they share their kernels, and checked one by one.
class Graphs {
public:
  explicit Graphs(ArrayRef<Sizes> list, uint64_t seed = 5) {
    SmallVector<ModuleOp> parts;
    for (const Sizes &sizes : list) {
      texts.push_back(graphText(sizes));
      modules.push_back(parseText(*context, texts.back(), error));
      if (!modules.back())
        return;
      parts.push_back(*modules.back());
      for (Type type : onlyFunction(parts.back()).getArgumentTypes())
        inputs.push_back(randomInput(cast<RankedTensorType>(type), seed++));
    }
    joined = joinModules(parts);
  }

  std::optional<std::vector<RefTensor>> run(const CheckOptions &options) {
    std::unique_ptr<CompiledGraph> graph = joined ? CompiledGraph::compile(*joined, options, error) : nullptr;
    return graph ? graph->run(inputs, error) : std::nullopt;
  }

  /// What is wrong with each graph's results, with its text. For a query that sees few keys dP - delta is hardly more
  /// than the rounding of both.
  std::string check(ArrayRef<RefTensor> results) {
    std::string wrong;
    ArrayRef<RefTensor> rest = inputs;
    for (auto [i, module] : llvm::enumerate(modules)) {
      func::FuncOp function = onlyFunction(*module);
      std::vector<RefTensor> own(rest.take_front(function.getNumArguments()));
      auto reference = Reference::make(*module, own);
      std::string found = reference
                              ? reference->checkChain(results.take_front(function.getNumResults()), {.floorUlps = 32})
                              : reference.error().message();
      if (!found.empty())
        wrong += found + "\n" + texts[i] + "\n";
      rest = rest.drop_front(function.getNumArguments());
      results = results.drop_front(function.getNumResults());
    }
    return wrong;
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  std::vector<OwningOpRef<ModuleOp>> modules;
  OwningOpRef<ModuleOp> joined;
  std::vector<RefTensor> inputs;
  std::vector<std::string> texts;
  std::string error;
};

/// Multiplies keys by powers of two that grow with their number, so that the largest score grows again and again.
void growKeys(Graphs &graph, const Sizes &sizes) {
  constexpr int64_t alike = 48;
  int64_t row = sizes.keyHeads * sizes.width;
  for (int64_t i = 0; i < sizes.batch * sizes.keys * row; ++i)
    graph.inputs[1].data[i] = std::ldexp(graph.inputs[1].data[i], static_cast<int>(i / row % sizes.keys / alike));
}

/// Results as the interpreter's, and with the same bits for each number of threads.
void expectRight(ArrayRef<Sizes> list, const cpu::Target &target, ArrayRef<int> threads) {
  Graphs graphs(list);
  CheckOptions options;
  options.target = target;
  options.separate = true;
  std::optional<std::vector<RefTensor>> results = graphs.run(options);
  ASSERT_TRUE(results) << graphs.error;
  EXPECT_EQ(graphs.check(*results), "");
  for (int count : threads) {
    options.threads = count;
    std::optional<std::vector<RefTensor>> others = graphs.run(options);
    ASSERT_TRUE(others) << graphs.error;
    EXPECT_TRUE(sameBits(*results, *others)) << count << " threads give other bits";
  }
}

const Sizes shapes[] = {
    {.queries = 1, .keys = 1},
    {.queries = 37, .keys = 37, .heads = 5, .keyHeads = 5, .width = 16, .mask = "diagonal 0"},
    {.batch = 2,
     .queries = 37,
     .keys = 37,
     .heads = 2,
     .keyHeads = 2,
     .width = 24,
     .mask = "diagonal 0",
     .packed = true},
    {.queries = 70, .keys = 133, .heads = 2, .keyHeads = 1, .width = 40},
    {.queries = 133, .keys = 70, .heads = 2, .keyHeads = 2, .width = 40, .mask = "diagonal -63"},
    {.batch = 2, .queries = 65, .keys = 65, .width = 64, .mask = "diagonal 0"},
    {.queries = 128, .keys = 128, .width = 64, .mask = "diagonal 0", .packed = true},
    {.queries = 20, .keys = 97, .heads = 4, .keyHeads = 2, .width = 64, .mask = "diagonal 77"},
    {.queries = 200, .keys = 200, .width = 16, .mask = "diagonal 0 window 30"},
    {.queries = 200, .keys = 90, .width = 16, .mask = "diagonal 5 window 70"},
    {.queries = 256, .keys = 256, .heads = 3, .keyHeads = 1, .width = 16, .mask = "diagonal 0"},
    {.queries = 37, .keys = 45, .width = 80, .mask = "diagonal 3"},
    {.queries = 66, .keys = 66, .width = 128, .mask = "diagonal 0", .scale = 0.088},
    {.queries = 37, .keys = 37, .width = 256, .mask = "diagonal 0", .scale = 0.0625},
    {.queries = 5, .keys = 7, .width = 1, .mask = "diagonal 0"},
    {.queries = 19, .keys = 70, .heads = 2, .keyHeads = 2, .width = 33, .mask = "diagonal 9"},
    {.queries = 30, .keys = 30, .width = 16, .mask = "diagonal -40"},
    {.queries = 30, .keys = 30, .width = 16, .mask = "diagonal 9000000000000000000 window 9000000000000000000"},
    {.queries = 30, .keys = 30, .width = 16, .mask = "diagonal -9000000000000000000 window 9"},
    {.queries = 40, .keys = 40, .width = 16, .mask = "diagonal 0", .scale = -2.5},
    {.batch = 0, .queries = 4, .keys = 4, .mask = "diagonal 0"},
    {.queries = 4, .keys = 0},
    {.queries = 0, .keys = 4},
    {.queries = 97, .keys = 257, .width = 96, .mask = "diagonal 160"},
    {.queries = 1, .keys = 290, .heads = 2, .keyHeads = 1, .width = 64},
    {.queries = 70, .keys = 301, .heads = 2, .keyHeads = 1, .width = 8, .mask = "diagonal 231 window 270"},
    {.queries = 450, .keys = 450, .heads = 3, .keyHeads = 1, .width = 8, .mask = "diagonal 0 window 33"},
    {.queries = 33, .keys = 140, .width = 33, .mask = "diagonal 107", .rate = 0.3},
    {.batch = 2, .queries = 37, .keys = 70, .heads = 4, .keyHeads = 2, .width = 24, .mask = "diagonal 33", .rate = 0.1},
    {.batch = 2,
     .queries = 70,
     .keys = 70,
     .heads = 3,
     .keyHeads = 3,
     .mask = "diagonal 0",
     .packed = true,
     .rate = 0.25,
     .seed = "i64",
     .hasFirst = true},
    {.queries = 80, .keys = 87, .width = 33, .mask = "diagonal 5 window 41", .rate = 0.5, .hasFirst = true},
    {.queries = 19, .keys = 83, .width = 64, .rate = 0.9, .seed = "i64"},
    {.queries = 9, .keys = 9, .mask = "diagonal -3", .rate = 0.2},
    {.queries = 4, .keys = 0, .rate = 0.2},
};

std::vector<Sizes> ofElement(std::vector<Sizes> list, const std::string &element) {
  for (Sizes &sizes : list)
    sizes.element = element;
  return list;
}

class Attention : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Elements, Attention, testing::Values("f32", "bf16"),
                         [](const testing::TestParamInfo<const char *> &info) { return std::string(info.param); });

TEST_P(Attention, equalsTheInterpreter) {
  expectRight(ofElement({std::begin(shapes), std::end(shapes)}, GetParam()), {}, {2, 3});
}

// What was summed is scaled again and again.
TEST_P(Attention, equalsTheInterpreterWhereScoresGrow) {
  const Sizes list[] = {{.queries = 70, .keys = 300, .width = 64},
                        {.batch = 2, .queries = 200, .keys = 200, .heads = 2, .width = 40, .mask = "diagonal 0"},
                        {.queries = 90, .keys = 290, .width = 64, .mask = "diagonal 200", .rate = 0.2},
                        {.queries = 200, .keys = 200, .width = 64, .mask = "diagonal 0", .scale = 0}};
  for (const Sizes &sizes : ofElement({std::begin(list), std::end(list)}, GetParam())) {
    Graphs graph(sizes);
    growKeys(graph, sizes);
    std::optional<std::vector<RefTensor>> results = graph.run({});
    ASSERT_TRUE(results) << graph.error;
    EXPECT_EQ(graph.check(*results), "");
  }
}

TEST_P(Attention, equalsTheInterpreterOnOtherCpus) {
  std::vector<cpu::Target> targets = {{"x86-64", "", 0}};
  if (!runtime::requireCpuFeatures("avx2,fma"))
    targets.push_back({"x86-64-v3", "", 0});
  if (!runtime::requireCpuFeatures("avx512bf16")) // products of pairs, and widened ones
    targets.insert(targets.end(), {{"native", "-amx-bf16,-amx-tile,-amx-int8", 0}, {"native", "-avx512bf16", 0}});
  std::vector<Sizes> few;
  for (const Sizes &sizes : shapes)
    if (sizes.width == 16 || sizes.width == 33 || sizes.width == 80)
      few.push_back(sizes);
  for (const cpu::Target &target : targets) {
    SCOPED_TRACE("CPU " + target.cpu + target.features);
    expectRight(ofElement(few, GetParam()), target, {});
  }
}

TEST_P(Attention, equalsTheInterpreterOnRandomShapes) {
  uint64_t state = 7;
  auto below = [&](int64_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(count));
  };
  std::vector<Sizes> list;
  for (int i = 0; i < 40; ++i) {
    Sizes sizes;
    sizes.batch = 1 + below(2);
    sizes.queries = 1 + below(150);
    sizes.keys = 1 + below(150);
    sizes.keyHeads = 1 + below(2);
    sizes.heads = sizes.keyHeads * (1 + below(3));
    sizes.width = below(2) ? 8 : 21;
    sizes.packed = below(3) == 0;
    if (sizes.packed) {
      sizes.keys = sizes.queries;
      sizes.heads = sizes.keyHeads;
    }
    if (below(4))
      sizes.mask = "diagonal " + std::to_string(below(120) - 60);
    if (!sizes.mask.empty() && below(3) == 0)
      sizes.mask += " window " + std::to_string(1 + below(90));
    if (below(3) == 0) {
      sizes.rate = 0.1 + 0.2 * static_cast<double>(below(4));
      sizes.seed = below(2) ? "i32" : "i64";
      sizes.hasFirst = below(3) == 0;
    }
    list.push_back(sizes);
  }
  expectRight(ofElement(list, GetParam()), {}, {2});
}

// Factors that are powers of two change no rounding, however many parts an element is multiplied in.
TEST_P(Attention, scalesWithItsOperands) {
  constexpr int v = 2, dOut = 3, exponents[] = {-60, 80};
  Sizes sizes{.queries = 70, .keys = 70, .heads = 2, .keyHeads = 2, .width = 33, .mask = "diagonal 0"};
  sizes.element = GetParam();
  Graphs graph(sizes);
  std::optional<std::vector<RefTensor>> before = graph.run({});
  ASSERT_TRUE(before) << graph.error;
  for (auto [operand, scaled] : {std::pair(v, std::vector<int>{0, 2, 3}), {dOut, {2, 3, 4}}})
    for (int exponent : exponents) {
      SCOPED_TRACE("operand " + std::to_string(operand) + " times 2^" + std::to_string(exponent));
      const RefTensor kept = graph.inputs[operand];
      for (double &x : graph.inputs[operand].data)
        x = std::ldexp(x, exponent);
      std::optional<std::vector<RefTensor>> after = graph.run({});
      ASSERT_TRUE(after) << graph.error;
      graph.inputs[operand] = kept;
      for (int result : scaled) {
        int64_t wrong = 0;
        for (auto [x, y] : llvm::zip_equal((*before)[result].data, (*after)[result].data))
          wrong += std::ldexp(x, exponent) != y ? 1 : 0;
        EXPECT_EQ(wrong, 0) << "result " << result;
      }
    }
}

//===- what is compiled ----------------------------------------------------------------------------------------===//

const runtime::KernelCall *attentionCall(const runtime::Plan &plan, const std::string &label) {
  for (const runtime::Instruction &instruction : plan.instructions)
    if (StringRef(instruction.label).starts_with(label))
      return std::get_if<runtime::KernelCall>(&instruction.call);
  return nullptr;
}

TEST(AttentionCode, isOneKernelForAllSizes) {
  auto codeOf = [](const Sizes &sizes) {
    Graphs graph(sizes);
    std::optional<runtime::Artefact> artefact = compileGraph(*graph.joined, {}, graph.error);
    EXPECT_TRUE(artefact) << graph.error;
    const runtime::Plan &plan = artefact->targets[0].plan;
    EXPECT_EQ(plan.instructions.size(), 3u); // forward, backward, sums of parts
    EXPECT_TRUE(attentionCall(plan, "attention 1 x") && attentionCall(plan, "attention backward 1 x"));
    return artefact->targets[0].code;
  };
  for (const char *element : {"f32", "bf16"})
    EXPECT_TRUE(codeOf({.queries = 70, .keys = 30, .mask = "diagonal 0", .element = element}) ==
                codeOf({.queries = 77,
                        .keys = 99,
                        .heads = 6,
                        .keyHeads = 3,
                        .mask = "diagonal 4 window 9",
                        .element = element,
                        .scale = 3}));
}

TEST(AttentionCode, isShownAsText) {
  std::string error;
  auto emitted = [&](const char *text) {
    const KernelSource source = TextKernel{"attention", text};
    return take(cpu::emitKernels(source, {}, cpu::Artefact::llvm), error).value_or("");
  };
  std::string text = emitted("attention_forward bf16 40");
  EXPECT_NE(text.find("; attention_forward bf16 40, items are workers\n"), std::string::npos);
  EXPECT_NE(text.find("define void @attention("), std::string::npos);
  EXPECT_EQ(emitted("attention_sideways f32 40"), "");
  EXPECT_EQ(error, "kernel 'attention': the CPU has no 'attention_sideways f32 40'");
}

TEST(AttentionCode, multipliesByTilesWhereTheTargetHasThem) {
  auto count = [](const char *text, const char *features, StringRef what) {
    std::string error;
    const KernelSource source = TextKernel{"attention", text};
    cpu::EmitOptions options;
    options.target.features = features;
    std::string emitted = take(cpu::emitKernels(source, options, cpu::Artefact::llvm), error).value_or("");
    EXPECT_NE(emitted, "") << error;
    return StringRef(emitted).count(what);
  };
  constexpr const char *product = "call void @llvm.x86.tdpbf16ps", *none = "-amx-bf16";
  for (const char *text : {"attention_forward bf16 40", "attention_backward bf16 64 dropout",
                           "attention_forward f32 33", "attention_backward f32 64"}) {
    EXPECT_EQ(count(text, "", product) > 0, runtime::hasTiles()) << text;
    EXPECT_EQ(count(text, "", "call void @llvm.x86.ldtilecfg"), runtime::hasTiles() ? 1U : 0U) << text;
    EXPECT_EQ(count(text, "", "call void @llvm.x86.tilerelease"), runtime::hasTiles() ? 1U : 0U) << text;
    EXPECT_EQ(count(text, none, product), 0U) << text;
  }
  EXPECT_EQ(count("attention_forward f32 64 bias", "", product), 0U);
  EXPECT_EQ(count("attention_sums bf16 64", "", product), 0U);
}

TEST(AttentionCode, scratchDoesNotGrowWithTheSquareOfTheLength) {
  auto planned = [](int64_t length) {
    Graphs graph(Sizes{.queries = length, .keys = length, .width = 64, .mask = "diagonal 0", .packed = true});
    std::optional<runtime::Artefact> artefact = compileGraph(*graph.joined, {}, graph.error);
    EXPECT_TRUE(artefact) << graph.error;
    return static_cast<double>(artefact->targets[0].plan.plannedBytes());
  };
  EXPECT_LE(planned(8192), 2.05 * planned(4096));
}

/// The keys that hide(key) is true of become NaN in k and v, inputs 1 and 2.
void hideKeys(Graphs &graph, const Sizes &sizes, function_ref<bool(int64_t)> hide) {
  int64_t row = sizes.keyHeads * sizes.width;
  for (int operand : {1, 2})
    for (int64_t key = 0; key < sizes.keys; ++key)
      if (hide(key))
        std::fill_n(graph.inputs[operand].data.begin() + key * row, row, std::nan(""));
}

TEST_P(Attention, doesNotReadHiddenKeys) {
  // Keys that no query sees, after the diagonal and before the window.
  Sizes sizes{.queries = 70, .keys = 300, .heads = 2, .keyHeads = 2, .mask = "diagonal 150 window 20"};
  sizes.element = GetParam();
  Graphs graph(sizes);
  std::optional<std::vector<RefTensor>> before = graph.run({});
  ASSERT_TRUE(before) << graph.error;
  hideKeys(graph, sizes, [](int64_t key) { return key <= 130 || key > 69 + 150; });
  std::optional<std::vector<RefTensor>> after = graph.run({});
  ASSERT_TRUE(after) << graph.error;
  EXPECT_TRUE(sameBits(*before, *after));
}

// It is made of the gradient's kernel on a target without one of its own.
TEST_P(Attention, packedGradientsDoNotReadHiddenKeys) {
  const Sizes sizes{.queries = 6, .keys = 6, .width = 8, .mask = "diagonal -2", .element = GetParam()};
  Graphs graph(sizes);
  auto q = typeText({1, 6, 1, 8}, sizes.element), packed = typeText({1, 6, 3, 8}, sizes.element);
  std::string text = graph.texts[0];
  text = text.substr(0, text.find(") -> (")) + ") -> (" + packed + ") {\n" + text.substr(text.find("  %r:2"));
  text = text.substr(0, text.find("  %d:3")) +
         "  %d = tcc.flash_attention_packed_gradient %q, %k, %v, %r#0, %r#1, %g " + sizes.mask + " scale 0.25 : (" + q +
         ", " + q + ", " + q + ", " + q + ", tensor<1x1x6xf32>, " + q + ") -> " + packed + "\n  return %d : " + packed +
         "\n}";
  graph.joined = parseText(*graph.context, text, graph.error);
  ASSERT_TRUE(graph.joined) << graph.error << text;
  std::optional<std::vector<RefTensor>> before = graph.run({});
  ASSERT_TRUE(before) << graph.error;
  hideKeys(graph, sizes, [](int64_t key) { return key >= 4; });
  std::optional<std::vector<RefTensor>> after = graph.run({});
  ASSERT_TRUE(after) << graph.error;
  EXPECT_TRUE(sameBits(*before, *after));
}

TEST_P(Attention, earlierBlocksDoNotSeeLaterKeys) {
  Sizes sizes{.queries = 150, .keys = 150, .width = 40, .mask = "diagonal 0"};
  sizes.element = GetParam();
  Graphs graph(sizes);
  std::optional<std::vector<RefTensor>> before = graph.run({});
  ASSERT_TRUE(before) << graph.error;
  hideKeys(graph, sizes, [](int64_t key) { return key >= 64; });
  std::optional<std::vector<RefTensor>> after = graph.run({});
  ASSERT_TRUE(after) << graph.error;
  for (auto [result, width] : {std::pair(0, sizes.width), {1, int64_t(1)}, {2, sizes.width}}) { // out, lse and dQ
    ArrayRef<double> x = (*before)[result].data, y = (*after)[result].data;
    EXPECT_TRUE(x.take_front(64 * width) == y.take_front(64 * width)) << "result " << result;
    EXPECT_TRUE(std::isnan(y[64 * width])) << "result " << result;
  }
}

// Where a query sees one key, out is that key's value and dP is dOut · out, whatever both are: dP - delta is exactly 0
// if both are summed in one order. Their rounding would be dQ's whole error, and the largest one of a first query.
TEST(AttentionGradient, isZeroForAQueryOfOneKey) {
  std::vector<cpu::Target> targets = {{}, {"x86-64", "", 0}};
  if (!runtime::requireCpuFeatures("avx2,fma"))
    targets.push_back({"x86-64-v3", "", 0});
  if (!runtime::requireCpuFeatures("avx512bf16"))
    targets.push_back({"native", "-amx-bf16,-amx-tile,-amx-int8", 0});
  for (const cpu::Target &target : targets) {
    for (int64_t width : {8, 33, 64, 80}) {
      SCOPED_TRACE("CPU " + target.cpu + target.features + ", width " + std::to_string(width));
      Sizes sizes{.queries = 70, .keys = 70, .heads = 2, .keyHeads = 2, .width = width, .mask = "diagonal 0 window 1"};
      Graphs graph(sizes);
      CheckOptions options;
      options.target = target;
      std::optional<std::vector<RefTensor>> results = graph.run(options);
      ASSERT_TRUE(results) << graph.error;
      EXPECT_GT(llvm::count_if((*results)[4].data, [](double x) { return x != 0; }), 0) << "dV";
      for (int result : {2, 3})
        EXPECT_TRUE(llvm::all_of((*results)[result].data, [](double x) { return x == 0; })) << "result " << result;
    }
  }
}

//===- planted faults ------------------------------------------------------------------------------------------===//

/// Whether the results are still taken for right where a number that both calls read is another one.
class PlantedFaults : public testing::Test {
protected:
  Graphs graph{Sizes{.queries = 70,
                     .keys = 70,
                     .heads = 4,
                     .keyHeads = 2,
                     .mask = "diagonal 0 window 40",
                     .rate = 0.2,
                     .hasFirst = true}};
  std::optional<runtime::Artefact> artefact = compileGraph(*graph.joined, {}, graph.error);

  bool passesWith(AttentionNumber which, const std::function<int64_t(int64_t)> &change) {
    runtime::Artefact changed = *artefact;
    for (std::string &constant : changed.targets[0].plan.constants) {
      int64_t number = 0;
      char *place = constant.data() + static_cast<size_t>(which) * sizeof number;
      std::memcpy(&number, place, sizeof number);
      number = change(number);
      std::memcpy(place, &number, sizeof number);
    }
    std::unique_ptr<CompiledGraph> loaded =
        CompiledGraph::load(std::move(changed), onlyFunction(*graph.joined), {}, graph.error);
    std::optional<std::vector<RefTensor>> results = loaded ? loaded->run(graph.inputs, graph.error) : std::nullopt;
    return !results || graph.check(*results).empty();
  }
};

TEST_F(PlantedFaults, areFound) {
  ASSERT_TRUE(artefact) << graph.error;
  auto plus = [](int64_t step) { return [step](int64_t number) { return number + step; }; };
  EXPECT_TRUE(passesWith(AttentionNumber::diagonal, plus(0)));
  EXPECT_FALSE(passesWith(AttentionNumber::diagonal, plus(-1))) << "the mask is off by one";
  EXPECT_FALSE(passesWith(AttentionNumber::window, plus(1))) << "the window is off by one";
  EXPECT_FALSE(passesWith(AttentionNumber::scale, plus(1 << 14))) << "the scale is wrong by two thousandths";
  EXPECT_FALSE(passesWith(AttentionNumber::stream, plus(1))) << "the random bits are another op's";
  EXPECT_FALSE(passesWith(AttentionNumber::dropBelow, plus(1 << 26))) << "more is dropped";
  EXPECT_FALSE(passesWith(AttentionNumber::keepScale, plus(1 << 14))) << "what is kept is scaled by something else";
  EXPECT_FALSE(passesWith(AttentionNumber::hasFirst, plus(-1))) << "the place in the whole batch is lost";
  auto rowStride = static_cast<AttentionNumber>(static_cast<int>(AttentionNumber::strides) + 1);
  EXPECT_FALSE(passesWith(rowStride, plus(-16))) << "queries overlap";
  EXPECT_FALSE(passesWith(AttentionNumber::units, plus(-1))) << "the last unit is not run";
}

} // namespace
} // namespace tcc::test
