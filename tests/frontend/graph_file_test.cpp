// .graph text: round trip of every op, limits of the pre-scan, malformed and truncated text, diagnostics with carets.
#include "frontend/capture.h"
#include "frontend/graph_file.h"
#include "tests/mutate.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

struct Parsed {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string messages;
};

Parsed parse(const std::string &text, const GraphLimits &limits = {}) {
  Parsed parsed;
  llvm::raw_string_ostream stream(parsed.messages);
  DiagnosticPrinter printer(stream);
  parsed.module = parseGraph(text, "f.graph", threadContext(), printer, limits);
  EXPECT_EQ(static_cast<bool>(parsed.module), printer.errors() == 0) << parsed.messages;
  return parsed;
}

/// A function of one tensor argument around `body`, which defines %r of `type`.
std::string around(const std::string &body, const std::string &type = "tensor<4xf32>") {
  return "func.func @f(%x: tensor<4xf32>) -> " + type + " {\n  " + body + "\n  func.return %r : " + type + "\n}\n";
}

std::string scanMessage(const std::string &text, const GraphLimits &limits = {}) {
  const auto problem = scanGraphText(text, limits);
  return problem ? std::to_string(problem->line) + ":" + std::to_string(problem->column) + ": " + problem->message
                 : "accepted";
}

void expectRoundTrip(mlir::ModuleOp module) {
  const std::string once = graphText(module);
  Parsed again = parse(once);
  ASSERT_TRUE(again.module) << again.messages << once;
  EXPECT_EQ(graphText(*again.module), once);
}

TEST(GraphFile, RoundTripOfEveryOp) {
  // One traced function with every op: what the tracer knows is what the dialect has (Trace.KnowsEveryOpOfTheDialect).
  Parameter p("p", {4, 4}), m("m", {4, 4}), v("v", {4, 4});
  const Custom cap =
      customOp({.name = "cap",
                .body = [](Tensor t) { return 30.0 * tanh(t / 30.0); },
                .gradient = [](Tensor, Tensor y, Tensor dy) { return dy * (1.0 - y * y / 900.0); },
                .sharedObject = {"/lib/cap.so", "cap"},
                .cuda = {.text = "KERNEL(cap, 256, 1)(const float *x, float *y) {\n}\n", .kernel = "cap"},
                .cost = [](ValueTypes, ValueTypes) { return CustomCost{.flops = 80, .bytes = 128}; },
                .tolerance = 1e-4});
  const std::vector<int64_t> dims{0, 1}, sizes{2, 3}, steps{2, 1};
  Function function = compile("every_op", [&](Tensor x, Tensor index, Tensor seed, Tensor rate) {
    std::vector<Tensor> out = {
        -x,
#define TCC_UNARY(name) name(x),
#include "frontend/op_unary.inc"
#undef TCC_UNARY
        x + x,
        x - x,
        x * x,
        x / x,
        maximum(x, x),
        minimum(x, x),
        pow(x, 2.5),
        fmod(x, x),
        remainder(x, x),
        floorDivide(x, x),
        clamp(x, -1, 1),
        cast(logicalXor(isFinite(x), isFinite(x)), DType::i32),
        prod(x, 1),
        min(x, 0),
        argmax(x, 1),
        argmin(x, 1),
        cumsum(x, 1),
        cumprod(x, 0),
        cast(x, DType::bf16),
        sum(x, 1),
        max(x, 0),
        mean(x, -1),
        iota(0, {4, 4}),
        randomBits(seed, 3, {2, 2}),
        randomBits(seed, 3, {2, 2}, seed),
        broadcast(rate, {2, 3}),
        reshape(x, {16}),
        transpose(x),
        slice(x, 0, 1, 3),
        slice(x, dims, sizes, steps),
        pad(x, {1, 0}, {0, 2}),
        pad(x, dims, sizes, 1.5),
        window(x, dims, sizes, {steps, {1, 1}}),
        fold(reshape(x, {2, 2, 2, 2}), dims, {4, 4}, {{2, 2}, {}}),
        convolution(reshape(x, {1, 1, 16}), reshape(x, {4, 1, 4}), zeros({4}), {{2}, {1}, {1}, 1}),
        convolution(reshape(x, {1, 2, 8}), reshape(x, {4, 1, 4}), {}, {{}, {}, {}, 2}),
        sort(x, 0).values,
        cast(sort(x, 1, true).places, DType::f32),
        concat({x, x}, 1),
        gather(x, index),
        scatterAdd(x, index, gather(x, index)),
        matmul(cast(x, DType::f16), cast(x, DType::f16), {.transposeA = true, .dtype = DType::f32}),
        layerNorm(x, rate * zeros({4}), zeros({4})),
        rmsNorm(x, ones({4})),
        linear(x, p),
        linear(x, p, zeros({4})),
        attention(x, x, x, true),
        attention(x, x, x, isFinite(x)),
        dropout(x, 0.1, seed, 7),
        dropout(x, 0.1, seed, 7, seed),
        stochasticCast(x, seed, 8),
        cap(x),
        cond(
            sum(x) > 0, [&] { return x + x; }, [&] { return x * 3.0; }),
        repeat(3, x, [&](const Tensor &each) { return each * x; }),
        lanes(4, {x}, [&](const Tensors &parts) { return Tensors{parts[0] * 2.0}; })[0],
        crossEntropy(x, index),
        select(logicalNot(logicalOr(less(x, 0), logicalAnd(isFinite(x), greater(x, 1)))), x, 2.5),
        literal(std::vector<double>{1, 2, 3}, {3})};
    const auto next = adamw(p, x, m, v, rate, rate, rate, isFinite(rate));
    assign(p, next.parameter);
    assign(m, next.m);
    assign(v, next.v);
    out.push_back(gradient(sum(matmul(x, p)), Tensor(p)));
    return out;
  });
  const std::vector<Array> arguments = {Array({4, 4}), Array({4}, DType::i32), Array::scalar(1), Array(1.0f)};
  const std::string text = function.graph(arguments);
  Parsed parsed = parse(text);
  ASSERT_TRUE(parsed.module) << parsed.messages << text;
  EXPECT_EQ(graphText(*parsed.module), text);
  for (const TracedOp &op : tracedOps())
    EXPECT_NE(text.find("tcc." + std::string(op.name) + " "), std::string::npos) << op.name;
}

TEST(GraphFile, RoundTripOfTheExamples) {
  int seen = 0;
  for (const auto &entry : std::filesystem::directory_iterator("models")) {
    if (entry.path().extension() != ".graph")
      continue;
    ++seen;
    const auto text = readText(entry.path(), 1 << 20);
    ASSERT_TRUE(text) << text.error().message();
    Parsed parsed = parse(*text);
    ASSERT_TRUE(parsed.module) << entry.path() << parsed.messages;
    expectRoundTrip(*parsed.module);
  }
  EXPECT_GE(seen, 4);
}

TEST(GraphFile, RoundTripOfKernelsAndDynamicDims) {
  Parsed parsed = parse(R"(func.func @f(%x: tensor<?x8xf32> {tcc.name = "x"}) -> tensor<?x8xf32> {
  %r = tcc.exp %x : tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
})");
  ASSERT_TRUE(parsed.module) << parsed.messages;
  expectRoundTrip(*parsed.module);
}

TEST(GraphScan, LimitsHoldBeforeTheParserRuns) {
  const std::string good = around("%r = tcc.exp %x : tensor<4xf32>");
  EXPECT_EQ(scanMessage(good), "accepted");
  GraphLimits small;
  small.bytes = 20;
  EXPECT_NE(scanMessage(good, small).find("graph_c1"), std::string::npos);
  small = {};
  small.tokens = 10;
  EXPECT_NE(scanMessage(good, small).find("graph_c2"), std::string::npos);
  EXPECT_EQ(scanMessage("\n  tensor<1x1x1x1x1x1x1x1x1xf32>"), "2:26: tensor of more than 8 dims (graph_c3)");
  EXPECT_EQ(scanMessage("tensor<1x1x1x1x1x1x1x1xf32>"), "accepted");
  EXPECT_EQ(scanMessage("tensor<1099511627777xf32>"), "1:8: size beyond 2^40, the largest one (graph_c4)");
  EXPECT_EQ(scanMessage("tensor<99999999999999999999999999999xf32>"),
            "1:8: size beyond 2^40, the largest one (graph_c4)");
  EXPECT_EQ(scanMessage("tensor<1099511627776xf32>"), "accepted");
  EXPECT_EQ(scanMessage("tensor<1048576x2097152xf32>"), "1:8: tensor of more than 2^40 elements (graph_c4)");
  EXPECT_EQ(scanMessage("tensor<4294967296x4294967296x4294967296xf32>"),
            "1:8: tensor of more than 2^40 elements (graph_c4)");
  EXPECT_EQ(scanMessage("tensor<0x1099511627776x2xf32>"), "accepted") << "no elements at all";
  EXPECT_NE(scanMessage("tensor<4xi16777215>").find("graph_c4"), std::string::npos);
  EXPECT_NE(scanMessage("tensor<si128>").find("graph_c4"), std::string::npos);
  EXPECT_EQ(scanMessage(std::string(256, '[') + std::string(256, ']')), "accepted");
  EXPECT_EQ(scanMessage(std::string(257, '[')), "1:257: brackets are nested deeper than 256 (graph_c5)");
  EXPECT_NE(scanMessage("#map = affine_map<(d0) -> (d0)>").find("graph_c6"), std::string::npos);
  EXPECT_NE(scanMessage("dense_resource<x>").find("graph_c6"), std::string::npos);
  EXPECT_NE(scanMessage("dense<[" + std::string(70000, '1') + "]>").find("graph_c7"), std::string::npos);
  EXPECT_EQ(scanMessage("%d#1048576"), "accepted");
  EXPECT_EQ(scanMessage("%d#1048577"), "1:3: result number beyond 1048576 (graph_c8)");
  EXPECT_NE(scanMessage("%d#2147483648").find("graph_c8"), std::string::npos);
  std::string many, alike;
  for (int i = 0; i <= 4096; ++i) {
    many += "%d" + std::to_string(i) + "#8192 ";
    alike += "%d" + std::to_string(i) + "-d#8192 ";
  }
  EXPECT_NE(scanMessage(many).find("add up"), std::string::npos);
  EXPECT_NE(scanMessage(alike).find("add up"), std::string::npos);
  std::string ofOne; // as of a step with 20,000 parameters
  for (int i = 0; i < 20000; ++i)
    ofOne += "%d#" + std::to_string(i) + " %" + std::to_string(i) + "#1 ";
  EXPECT_EQ(scanMessage(ofOne), "accepted");
  EXPECT_NE(scanMessage("\"never closed\n").find("never closed"), std::string::npos);
  EXPECT_NE(scanMessage("(").find("never closed"), std::string::npos);
  EXPECT_NE(scanMessage(")").find("closes nothing"), std::string::npos);
  EXPECT_NE(scanMessage("(]").find("closes a '('"), std::string::npos);
  EXPECT_EQ(scanMessage("// ((((( \" #\n() -> ()"), "accepted");
  EXPECT_NE(scanMessage(std::string("ab\0c", 4)).find("byte 0"), std::string::npos);
}

TEST(GraphFile, DeepAndHugeTextsAreRefusedQuickly) {
  for (const std::string &text :
       {std::string(1 << 20, '('), std::string(1 << 20, '<'), std::string(1 << 20, '{'), std::string(9 << 20, '%'),
        around("%r = tcc.constant dense<0.0> : tensor<" + std::string(10000, '9') + "xf32>")}) {
    Parsed parsed = parse(text);
    EXPECT_FALSE(parsed.module);
    EXPECT_NE(parsed.messages.find("graph_c"), std::string::npos) << parsed.messages.substr(0, 200);
  }
}

TEST(GraphFile, MistakesHaveACaretAndARule) {
  EXPECT_EQ(parse(around("%r = tcc.exq %x : tensor<4xf32>")).messages.find("f.graph:2:"), 0u);
  const Parsed unknown = parse(around("%r = tcc.exq %x : tensor<4xf32>"));
  EXPECT_NE(unknown.messages.find("did you mean 'tcc.exp'?"), std::string::npos) << unknown.messages;
  EXPECT_NE(unknown.messages.find("  %r = tcc.exq %x : tensor<4xf32>\n"), std::string::npos);
  EXPECT_NE(unknown.messages.find("^~~~~~~\n"), std::string::npos);

  const Parsed product = parse(R"(func.func @f(%a: tensor<4x768xf32>, %b: tensor<512x8xf32>) -> tensor<4x8xf32> {
  %r = tcc.matmul %a, %b : tensor<4x768xf32>, tensor<512x8xf32> -> tensor<4x8xf32>
  func.return %r : tensor<4x8xf32>
})");
  EXPECT_NE(product.messages.find("f.graph:2:8: error: "), std::string::npos) << product.messages;
  EXPECT_NE(product.messages.find("`matmul` contraction sizes 768 and 512 differ (matmul_c1)"), std::string::npos)
      << product.messages;

  const auto message = [](const std::string &text) { return parse(text).messages; };
  EXPECT_NE(message("").find("empty"), std::string::npos);
  EXPECT_NE(message("module {}").find("function_c1"), std::string::npos);
  EXPECT_NE(message("func.func private @f(tensor<4xf32>)").find("function_c1"), std::string::npos);
  EXPECT_NE(message(around("%r = tcc.exp %x : tensor<4xf32>") + "func.func @g() { func.return }").find("function_c1"),
            std::string::npos);
  EXPECT_NE(message(around("%r = arith.negf %x : tensor<4xf32>")).find("function_c2"), std::string::npos);
  EXPECT_NE(message("func.func @f() {\n  func.return\n^bb1:\n  func.return\n}").find("function_c2"), std::string::npos);
  EXPECT_NE(message("func.func @f(%x: index) {\n  func.return\n}").find("function_c2"), std::string::npos);
  EXPECT_NE(message("func.func @f(%x: tensor<f32> {tcc.name = \"a\"}, %y: tensor<f32> {tcc.name = \"a\"}) {\n"
                    "  func.return\n}")
                .find("function_c3"),
            std::string::npos);
  EXPECT_NE(message("func.func @f(%x: tensor<f32>) -> (tensor<f32> {tcc.updates = \"w\"}) {\n"
                    "  func.return %x : tensor<f32>\n}")
                .find("function_c4"),
            std::string::npos);
}

TEST(GraphFile, EveryTruncationIsAnErrorOrAGraph) {
  const std::string text =
      R"(func.func @f(%x: tensor<2x3xf32> {tcc.name = "x"}, %w: tensor<3x4xf32> {tcc.name = "w", tcc.state})
    -> (tensor<2x4xf32> {tcc.name = "y"}, tensor<3x4xf32> {tcc.updates = "w"}) {
  %c = tcc.constant dense<[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]> : tensor<2x4xf32>
  %p = tcc.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %y = tcc.add %p, %c : tensor<2x4xf32>
  func.return %y, %w : tensor<2x4xf32>, tensor<3x4xf32>
}
)";
  ASSERT_TRUE(parse(text).module);
  for (size_t length = 0; length < text.size(); ++length) {
    const Parsed parsed = parse(text.substr(0, length));
    EXPECT_EQ(static_cast<bool>(parsed.module), length + 1 == text.size()) << length; // only the last newline is idle
  }
}

TEST(GraphFile, MutatedBytesNeverCrash) {
  const std::string signs = "0909%#!<>(){}[]x?-\"\\\n\t .,:=@^\x01\xff";
  uint64_t state = 7;
  auto random = [&](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  };
  std::vector<std::string> texts = {
      around("%c = tcc.constant dense<2.0> : tensor<4xf32>\n  %s = tcc.mul %x, %c : tensor<4xf32>\n"
             "  %r = tcc.slice %s [0] to [4] : tensor<4xf32> -> tensor<4xf32>")};
  for (const char *model : {"models/attention.graph", "models/train_step.graph"})
    texts.push_back(*readText(model, 1 << 20));
  int accepted = 0;
  for (int round = test::mutationRounds(1000); round > 0; --round) {
    std::string mutated = texts[random(texts.size())];
    for (size_t edits = 1 + random(3); edits; --edits) {
      const size_t at = random(mutated.size());
      if (random(3) == 0)
        mutated.erase(at, 1 + random(8));
      else if (random(2) == 0)
        mutated[at] = signs[random(signs.size())];
      else
        mutated.insert(at, mutated.substr(random(mutated.size()), random(12)));
      if (mutated.empty())
        mutated = " ";
    }
    const Parsed parsed = parse(mutated);
    accepted += static_cast<bool>(parsed.module);
    if (parsed.module)
      expectRoundTrip(*parsed.module);
  }
  EXPECT_GT(accepted, 0) << "some mutations are harmless";
}

TEST(Diagnostics, NearestFindsCloseNamesOnly) {
  EXPECT_EQ(nearest("simplfy", {"simplify", "schedule"}), "simplify");
  EXPECT_EQ(nearest("zzz", {"simplify", "schedule"}), "");
}

TEST(Diagnostics, TheCaretStandsUnderItsColumnAlsoAfterTabsAndInLongLines) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  DiagnosticPrinter printer(stream);
  printer.addSource("f", "\tab cd\n" + std::string(500, 'x') + "Y" + std::string(500, 'z'));
  printer.print(Severity::error, {"f", 1, 5}, "here");
  EXPECT_EQ(text, "f:1:5: error: here [TCC0006]\n\tab cd\n\t   ^\n");
  text.clear();
  printer.print(Severity::note, {"f", 2, 501}, "there");
  EXPECT_LT(text.size(), 400u);
  const size_t caret = text.rfind('^') - (text.rfind('\n', text.rfind('^')) + 1);
  const size_t line = text.find('\n') + 1;
  EXPECT_EQ(text[line + caret], 'Y') << text;
}

} // namespace
