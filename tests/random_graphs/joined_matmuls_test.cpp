// join-matmuls where it always pays, against the interpreter: the shapes that models have, in odd sizes and bf16, and
// random graphs.
#include "codegen/compile_session.h"
#include "codegen/cpu/target.h"
#include "ir/emit.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace tcc::test {
namespace {

/// The CPU, told what adding up matmuls costs it: where that is endless, any copy pays.
class EagerJoins : public cpu::CpuTarget {
public:
  explicit EagerJoins(double addendPrice) : CpuTarget(withoutTiles(), 1), changed(CpuTarget::model()) {
    changed.epilogues.addendPrice = addendPrice;
  }
  const TargetModel &model() const override { return changed; }

private:
  TargetModel changed;

  /// Code by AMX's tiles stores attention and activations in bf16, which is more than the verification's adversarial
  /// inputs bear: there a gradient is what is left of terms 10^5 times as large.
  static cpu::EmitOptions withoutTiles() {
    cpu::EmitOptions options;
    options.target.features = "-amx-bf16,-amx-tile,-amx-int8";
    return options;
  }
};

class JoinedMatmuls : public testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = makeContext();
  const EagerJoins always{1e12};

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    EXPECT_TRUE(module) << messages << text;
    return module;
  }

  /// How many matmuls the pass takes away from the module; its remarks in `said`.
  int64_t joined(ModuleOp module, const EagerJoins &target, std::vector<std::string> *said = nullptr) {
    const auto products = [&](bool joins) {
      OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
      PipelineOptions options;
      options.target = target.model();
      options.passes["join-matmuls"] = joins;
      options.endPass = "autodiff";
      Remarks remarks;
      options.remarks = &remarks;
      PipelineReport report;
      EXPECT_TRUE(succeeded(runPipeline(*copy, options, report)));
      for (const Remark &remark : remarks)
        if (said && joins && remark.pass == "join-matmuls")
          said->push_back(remark.text);
      int64_t count = 0;
      copy->walk([&](MatmulOp) { ++count; });
      return count;
    };
    return products(false) - products(true);
  }

  /// Compiles the module with every pass checked, runs it, and compares each result with the interpreter's.
  std::string verdict(ModuleOp module, uint64_t seed, ProductType products = ProductType::asWritten) {
    auto reference = Reference::make(module, generateInputs(onlyFunction(module), seed));
    if (!reference)
      return reference.error().message();
    CompileOptions options;
    options.target = &always;
    options.threads = 1;
    options.pipeline.products = products;
    options.pipeline.verifyEach = true;
    auto artefact = compileArtefact(cast<ModuleOp>(module->clone()), options);
    if (!artefact)
      return artefact.error().message();
    std::string error;
    std::unique_ptr<CompiledGraph> graph = CompiledGraph::load(std::move(*artefact), onlyFunction(module), {}, error);
    std::optional<std::vector<RefTensor>> results = graph ? graph->run(reference->arguments(), error) : std::nullopt;
    if (!results)
      return error;
    return products == ProductType::asWritten ? reference->checkChain(*results) : "";
  }
};

/// Rows of 5 heads of 7, a loss over attention and gradients with respect to `wrt`; weights [out, in] where asked.
std::string attentionText(bool isTransposed, const std::string &wrt) {
  const char *weight = "tensor<35x35xf32>";
  std::string text = llvm::formatv("func.func @main(%x: tensor<2x13x35xf32>, %wq: {0}, %wk: {0}, %wv: {0}) -> "
                                   "(tensor<f32>, GRADIENTS) {{\n",
                                   weight)
                         .str();
  for (const char *name : {"q", "k", "v"})
    text += llvm::formatv("  %{0} = tcc.matmul %x, %w{0}{1} : tensor<2x13x35xf32>, {2} -> tensor<2x13x35xf32>\n"
                          "  %{0}r = tcc.reshape %{0} : tensor<2x13x35xf32> -> tensor<2x13x5x7xf32>\n"
                          "  %{0}h = tcc.transpose %{0}r [0, 2, 1, 3] : tensor<2x13x5x7xf32> -> tensor<2x5x13x7xf32>\n",
                          name, isTransposed ? " transposed" : "", weight)
                .str();
  std::string gradients;
  for (StringRef name : llvm::split(wrt, ", "))
    gradients += (gradients.empty() ? "" : ", ") + std::string(name == "%x" ? "tensor<2x13x35xf32>" : weight);
  const auto count = llvm::count(wrt, '%');
  text += llvm::formatv("  %a = tcc.attention %qh, %kh, %vh causal scale 0.3 : tensor<2x5x13x7xf32>, "
                        "tensor<2x5x13x7xf32>, tensor<2x5x13x7xf32>\n"
                        "  %s = tcc.mul %a, %a : tensor<2x5x13x7xf32>\n"
                        "  %t = tcc.reduce_sum %s axes [0, 1, 2, 3] : tensor<2x5x13x7xf32> -> tensor<1x1x1x1xf32>\n"
                        "  %loss = tcc.reshape %t : tensor<1x1x1x1xf32> -> tensor<f32>\n"
                        "  %d:{0} = tcc.gradient %loss wrt {1} : tensor<f32>, {2}\n  return %loss",
                        count, wrt, gradients)
              .str();
  for (int64_t i = 0; i < count; ++i)
    text += llvm::formatv(", %d#{0}", i).str();
  text += llvm::formatv(" : tensor<f32>, {0}\n}\n", gradients).str();
  text.replace(text.find("GRADIENTS"), 9, gradients);
  return text;
}

TEST_F(JoinedMatmuls, queriesKeysAndValuesKeepTheirMeaning) {
  for (const bool isTransposed : {false, true})
    for (const char *wrt : {"%x, %wq, %wk, %wv", "%wq, %wk, %wv", "%x"}) {
      OwningOpRef<ModuleOp> module = parse(attentionText(isTransposed, wrt));
      EXPECT_EQ(joined(*module, always), StringRef(wrt).contains("%x") ? 2 : 0) << wrt;
      EXPECT_EQ(verdict(*module, 3), "") << wrt;
      EXPECT_EQ(verdict(*module, 3, ProductType::bf16), "") << wrt;
    }
}

TEST_F(JoinedMatmuls, frozenParametersStayApartFromTrainedOnes) {
  OwningOpRef<ModuleOp> module = parse(attentionText(false, "%x, %wk"));
  EXPECT_EQ(joined(*module, always), 1) << "%wq and %wv alone";
  EXPECT_EQ(verdict(*module, 3), "");
}

TEST_F(JoinedMatmuls, wideOnesStayApart) {
  OwningOpRef<ModuleOp> module = parse(attentionText(false, "%x, %wq, %wk, %wv"));
  std::vector<std::string> said;
  EXPECT_EQ(joined(*module, EagerJoins(2.4), &said), 0);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "the 3 matmuls matmul stay apart: one would save moving 17.5 kB and copy 51.2 kB");
}

/// Two losses over parts of a batch read the same parameters, which are cast, the second one after the first matmul.
TEST_F(JoinedMatmuls, partsOfABatchShareTheJoinedParameters) {
  std::string text = "func.func @main(%x: tensor<5x6xf32>, %y: tensor<9x6xf32>, %u: tensor<6x3xbf16>, %v: "
                     "tensor<6x10xbf16>) -> (tensor<6x3xf32>, tensor<6x10xf32>, tensor<5x6xf32>, tensor<9x6xf32>) {\n"
                     "  %uw = tcc.cast %u : tensor<6x3xbf16> -> tensor<6x3xf32>\n";
  std::string sums;
  for (const auto &[name, rows] : {std::pair("x", 5), {"y", 9}}) {
    text += llvm::formatv("  %{0}u = tcc.matmul %{0}, %uw : tensor<{1}x6xf32>, tensor<6x3xf32> -> tensor<{1}x3xf32>\n",
                          name, rows)
                .str();
    if (rows == 5)
      text += "  %vw = tcc.cast %v : tensor<6x10xbf16> -> tensor<6x10xf32>\n";
    text +=
        llvm::formatv("  %{0}v = tcc.matmul %{0}, %vw : tensor<{1}x6xf32>, tensor<6x10xf32> -> tensor<{1}x10xf32>\n"
                      "  %{0}a = tcc.tanh %{0}u : tensor<{1}x3xf32>\n  %{0}b = tcc.tanh %{0}v : tensor<{1}x10xf32>\n"
                      "  %{0}s = tcc.reduce_sum %{0}a axes [0, 1] : tensor<{1}x3xf32> -> tensor<1x1xf32>\n"
                      "  %{0}t = tcc.reduce_sum %{0}b axes [0, 1] : tensor<{1}x10xf32> -> tensor<1x1xf32>\n"
                      "  %{0}p = tcc.mul %{0}s, %{0}t : tensor<1x1xf32>\n"
                      "  %{0}l = tcc.reshape %{0}p : tensor<1x1xf32> -> tensor<f32>\n"
                      "  %{0}g:3 = tcc.gradient %{0}l wrt %uw, %vw, %{0} : tensor<f32>, tensor<6x3xf32>, "
                      "tensor<6x10xf32>, tensor<{1}x6xf32>\n",
                      name, rows)
            .str();
  }
  text += "  %du = tcc.add %xg#0, %yg#0 : tensor<6x3xf32>\n  %dv = tcc.add %xg#1, %yg#1 : tensor<6x10xf32>\n"
          "  return %du, %dv, %xg#2, %yg#2 : tensor<6x3xf32>, tensor<6x10xf32>, tensor<5x6xf32>, tensor<9x6xf32>\n}\n";
  OwningOpRef<ModuleOp> module = parse(text);
  EXPECT_EQ(joined(*module, always), 2);
  EXPECT_EQ(verdict(*module, 8), "");
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>((*module)->clone()));
  PipelineOptions options;
  options.target = always.model();
  options.endPass = "autodiff";
  PipelineReport report;
  ASSERT_TRUE(succeeded(runPipeline(*copy, options, report)));
  int64_t concats = 0;
  copy->walk([&](ConcatOp) { ++concats; });
  EXPECT_EQ(concats, 1);
}

/// Two or three of different widths, with and without transposed weights; each is read twice, one is also a result.
TEST_F(JoinedMatmuls, widthsAndReadersMayDiffer) {
  for (const bool isTransposed : {false, true})
    for (const int count : {2, 3}) {
      const auto weight = [&](int columns) {
        return isTransposed ? llvm::formatv("tensor<{0}x9xf32>", columns).str()
                            : llvm::formatv("tensor<9x{0}xf32>", columns).str();
      };
      const int widths[] = {1, 7, 40};
      std::string inputs, products, wrt, types;
      for (int i = 0; i < count; ++i) {
        inputs += llvm::formatv(", %w{0}: {1}", i, weight(widths[i]));
        products += llvm::formatv("  %p{0} = tcc.matmul %x, %w{0}{1} : tensor<5x9xf32>, {2} -> tensor<5x{3}xf32>\n"
                                  "  %t{0} = tcc.tanh %p{0} : tensor<5x{3}xf32>\n"
                                  "  %m{0} = tcc.mul %t{0}, %p{0} : tensor<5x{3}xf32>\n"
                                  "  %s{0} = tcc.reduce_sum %m{0} axes [0, 1] : tensor<5x{3}xf32> -> tensor<1x1xf32>\n",
                                  i, isTransposed ? " transposed" : "", weight(widths[i]), widths[i]);
        wrt += llvm::formatv(", %w{0}", i);
        types += ", " + weight(widths[i]);
      }
      std::string sum = "%s0";
      for (int i = 1; i < count; ++i) {
        products += llvm::formatv("  %u{0} = tcc.add {1}, %s{0} : tensor<1x1xf32>\n", i, sum);
        sum = llvm::formatv("%u{0}", i);
      }
      std::string results;
      for (int i = 0; i <= count; ++i)
        results += llvm::formatv(", %d#{0}", i);
      const std::string text =
          llvm::formatv("func.func @main(%x: tensor<5x9xf32>{0}) -> (tensor<5x7xf32>, tensor<5x9xf32>{1}) {{\n{2}"
                        "  %loss = tcc.reshape {3} : tensor<1x1xf32> -> tensor<f32>\n"
                        "  %d:{4} = tcc.gradient %loss wrt %x{5} : tensor<f32>, tensor<5x9xf32>{1}\n"
                        "  return %p1{6} : tensor<5x7xf32>, tensor<5x9xf32>{1}\n}\n",
                        inputs, types, products, sum, count + 1, wrt, results);
      OwningOpRef<ModuleOp> module = parse(text);
      ASSERT_TRUE(module);
      EXPECT_EQ(joined(*module, always), count - 1);
      EXPECT_EQ(verdict(*module, 5), "") << text;
      EXPECT_EQ(verdict(*module, 5, ProductType::bf16), "");
    }
}

/// Adapters: x times a narrow matrix, times a second one, added to x times a frozen one.
TEST_F(JoinedMatmuls, adaptersOfFrozenMatricesAreJoinedAmongThemselves) {
  std::string inputs, body;
  for (const char *name : {"q", "v"}) {
    inputs += llvm::formatv(", %w{0}: tensor<12x12xf32>, %a{0}: tensor<12x2xf32>, %b{0}: tensor<2x12xf32>", name);
    body += llvm::formatv("  %f{0} = tcc.matmul %x, %w{0} : tensor<7x12xf32>, tensor<12x12xf32> -> tensor<7x12xf32>\n"
                          "  %n{0} = tcc.matmul %x, %a{0} : tensor<7x12xf32>, tensor<12x2xf32> -> tensor<7x2xf32>\n"
                          "  %m{0} = tcc.matmul %n{0}, %b{0} : tensor<7x2xf32>, tensor<2x12xf32> -> tensor<7x12xf32>\n"
                          "  %y{0} = tcc.add %f{0}, %m{0} : tensor<7x12xf32>\n",
                          name);
  }
  const std::string text =
      "func.func @main(%x: tensor<7x12xf32>" + inputs +
      ") -> (tensor<12x2xf32>, tensor<2x12xf32>, tensor<12x2xf32>, tensor<7x12xf32>) {\n" + body +
      "  %p = tcc.mul %yq, %yv : tensor<7x12xf32>\n"
      "  %s = tcc.reduce_sum %p axes [0, 1] : tensor<7x12xf32> -> tensor<1x1xf32>\n"
      "  %loss = tcc.reshape %s : tensor<1x1xf32> -> tensor<f32>\n"
      "  %d:4 = tcc.gradient %loss wrt %aq, %bq, %av, %x : tensor<f32>, tensor<12x2xf32>, tensor<2x12xf32>, "
      "tensor<12x2xf32>, tensor<7x12xf32>\n"
      "  return %d#0, %d#1, %d#2, %d#3 : tensor<12x2xf32>, tensor<2x12xf32>, tensor<12x2xf32>, tensor<7x12xf32>\n}\n";
  OwningOpRef<ModuleOp> module = parse(text);
  ASSERT_TRUE(module);
  EXPECT_EQ(joined(*module, always), 1) << "the narrow ones";
  EXPECT_EQ(verdict(*module, 9), "");
  EXPECT_EQ(verdict(*module, 9, ProductType::bf16), "");
}

TEST_F(JoinedMatmuls, whatAMatmulAddsItselfStaysWithIt) {
  OwningOpRef<ModuleOp> module =
      parse("func.func @main(%x: tensor<4x6xf32>, %u: tensor<6x3xf32>, %v: tensor<6x3xf32>, %b: tensor<3xf32>) -> "
            "(tensor<4x3xf32>, tensor<4x3xf32>) {\n"
            "  %p = tcc.linear %x, %u, %b : tensor<4x6xf32>, tensor<6x3xf32>, tensor<3xf32> -> tensor<4x3xf32>\n"
            "  %q = tcc.matmul %x, %v : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>\n"
            "  return %p, %q : tensor<4x3xf32>, tensor<4x3xf32>\n}\n");
  std::vector<std::string> said;
  EXPECT_EQ(joined(*module, always, &said), 0);
  EXPECT_EQ(said, std::vector<std::string>{"linear stays apart: expected no addition to its result, which a "
                                           "matmul does itself"});
}

/// Matmuls of random sizes: of x, of y and of what earlier ones gave, by parameters that some of them share, and the
/// gradients of their sum with respect to some of the arguments.
std::string randomMatmuls(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t limit) { return size_t(random() % limit); };
  const int64_t rows = 1 + int64_t(below(70)), width = 1 + int64_t(below(40));
  const auto type = [](int64_t first, int64_t second, const char *element = "f32") {
    return llvm::formatv("tensor<{0}x{1}x{2}>", first, second, element).str();
  };
  std::vector<std::pair<std::string, std::string>> inputs{{"%x", type(rows, width)}, {"%y", type(rows, width)}};
  struct Parameter {
    std::string name, type;
    bool isTransposed;
    int64_t columns;
  };
  std::vector<Parameter> parameters;
  std::string body, loss;
  for (size_t i = 0, count = 2 + below(4); i < count; ++i) {
    const bool isTransposed = below(3) == 0, isNarrow = below(4) == 0;
    const int64_t columns = below(2) ? width : 1 + int64_t(below(50));
    const auto stored = [&](const char *element) {
      return isTransposed ? type(columns, width, element) : type(width, columns, element);
    };
    const std::string name = llvm::formatv("%w{0}", i);
    inputs.emplace_back(name, stored(isNarrow ? "bf16" : "f32"));
    if (isNarrow)
      body += llvm::formatv("  {0}c = tcc.cast {0} : {1} -> {2}\n", name, stored("bf16"), stored("f32"));
    parameters.push_back({name + (isNarrow ? "c" : ""), stored("f32"), isTransposed, columns});
  }
  std::vector<std::string> lefts{"%x", "%y"};
  for (size_t i = 0, count = 3 + below(6); i < count; ++i) {
    const std::string left = lefts[below(lefts.size())];
    const Parameter &by = parameters[below(parameters.size())];
    const std::string result = type(rows, by.columns);
    body += llvm::formatv("  %p{0} = tcc.matmul {1}, {2}{3} : {4}, {5} -> {6}\n  %t{0} = tcc.tanh %p{0} : {6}\n"
                          "  %s{0} = tcc.reduce_sum %t{0} axes [0, 1] : {6} -> tensor<1x1xf32>\n",
                          i, left, by.name, by.isTransposed ? " transposed" : "", type(rows, width), by.type, result);
    if (i > 0)
      body += llvm::formatv("  %u{0} = tcc.add {1}, %s{0} : tensor<1x1xf32>\n", i, loss);
    loss = llvm::formatv(i > 0 ? "%u{0}" : "%s{0}", i);
    if (by.columns == width)
      lefts.push_back(llvm::formatv("%t{0}", i));
  }
  std::string arguments, wrt, types, results;
  size_t taken = 0;
  for (const auto &[name, stored] : inputs) {
    arguments += (arguments.empty() ? "" : ", ") + name + ": " + stored;
    if (below(3) == 0 && taken + 1 < inputs.size())
      continue;
    wrt += (taken ? ", " : "") + name;
    types += (taken ? ", " : "") + stored;
    results += llvm::formatv("{0}%d{1}", taken ? ", " : "", taken);
    ++taken;
  }
  return llvm::formatv(
      "func.func @main({0}) -> ({1}) {{\n{2}  %loss = tcc.reshape {3} : tensor<1x1xf32> -> tensor<f32>\n"
      "  {4} = tcc.gradient %loss wrt {5} : tensor<f32>, {1}\n  return {4} : {1}\n}\n",
      arguments, types, body, loss, results, wrt);
}

TEST_F(JoinedMatmuls, randomGraphsKeepTheirMeaning) {
  constexpr uint64_t graphs = 60;
  uint64_t changed = 0;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string text = randomMatmuls(seed);
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(module);
    changed += joined(*module, always) > 0;
    EXPECT_EQ(verdict(*module, seed), "") << text;
  }
  EXPECT_GE(changed, graphs / 2) << "graphs of " << graphs << " in which matmuls are joined";
}

} // namespace
} // namespace tcc::test
