// Every number of the target model changes what some pass makes: each at the CPU's value and at another one.
#include "codegen/messages.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "passes/pipeline.h"
#include "tests/ops/op_table.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// One function through the pipeline for a model.
class Compiled {
public:
  Compiled(const std::string &text, const TargetModel &model, int level, Phase stopAfter,
           ProductType products = ProductType::asWritten)
      : module(parseText(*context, text, messages)) {
    PipelineOptions options;
    options.target = model;
    options.level = level;
    options.stopAfter = stopAfter;
    options.products = products;
    Messages said(context.get());
    EXPECT_TRUE(module && succeeded(runPipeline(*module, options, report))) << messages << said.text;
  }

  template <typename Op>
  SmallVector<Op> all() {
    SmallVector<Op> ops;
    module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
  int64_t kernels() { return all<KernelOp>().size(); }
  int64_t kernelResults() {
    int64_t count = 0;
    for (KernelOp kernel : all<KernelOp>())
      count += kernel.getNumResults();
    return count;
  }
  /// Elements that the last of several sums adds up.
  int64_t lastSum() { return tensorType(all<ReduceSumOp>().back().getX()).getNumElements(); }

  std::unique_ptr<MLIRContext> context = makeContext();
  std::string messages;
  PipelineReport report;
  OwningOpRef<ModuleOp> module;
};

constexpr const char *columnSum = R"(func.func @main(%x: tensor<128x8xf32>) -> tensor<1x8xf32> {
  %s = tcc.reduce_sum %x axes [0] : tensor<128x8xf32> -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
})";
constexpr const char *longSum = R"(func.func @main(%x: tensor<40000xf32>) -> tensor<1xf32> {
  %s = tcc.reduce_sum %x axes [0] : tensor<40000xf32> -> tensor<1xf32>
  return %s : tensor<1xf32>
})";

TEST(TargetModel, SplitsColumnSums) {
  TargetModel model;
  EXPECT_EQ(Compiled(columnSum, model, 2, Phase::shaped).lastSum(), 16 * 8);
  model.columnParts = 4;
  EXPECT_EQ(Compiled(columnSum, model, 2, Phase::shaped).lastSum(), 4 * 8);
  model.fewestRows = 129;
  EXPECT_EQ(Compiled(columnSum, model, 2, Phase::shaped).lastSum(), 128 * 8);
}

TEST(TargetModel, SplitsLongRows) {
  TargetModel model;
  EXPECT_EQ(Compiled(longSum, model, 2, Phase::shaped).lastSum(), 10); // of 4000
  model.longestPart = 1100;                                            // of 1000, the largest divisor
  EXPECT_EQ(Compiled(longSum, model, 2, Phase::shaped).lastSum(), 40);
  model.shortestPart = 1001; // of 1100, the last one filled up
  EXPECT_EQ(Compiled(longSum, model, 2, Phase::shaped).lastSum(), 37);
  model = {};
  model.longestRow = 40000;
  EXPECT_EQ(Compiled(longSum, model, 2, Phase::shaped).lastSum(), 40000);
}

/// %e is needed before a matmul and after it.
constexpr const char *aroundProduct = R"(func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tcc.tanh %x : tensor<64x64xf32>
  %n = tcc.neg %e : tensor<64x64xf32>
  %p = tcc.matmul %n, %n : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = tcc.add %p, %e : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
})";
/// Four bytes that are computed from twelve.
constexpr const char *scalarAroundProduct = R"(func.func @main(%x: tensor<8x8xf32>, %a: tensor<f32>, %b: tensor<f32>,
    %c: tensor<f32>) -> tensor<8x8xf32> {
  %ab = tcc.mul %a, %b : tensor<f32>
  %s = tcc.add %ab, %c : tensor<f32>
  %w = tcc.broadcast %s : tensor<f32> -> tensor<8x8xf32>
  %n = tcc.mul %x, %w : tensor<8x8xf32>
  %p = tcc.matmul %n, %n : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = tcc.add %p, %w : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
})";

TEST(TargetModel, SaysWhatIsRecomputed) {
  TargetModel model;
  EXPECT_EQ(Compiled(aroundProduct, model, 2, Phase::fused).kernelResults(), 2);
  model.longestRecomputation = 0;
  EXPECT_EQ(Compiled(aroundProduct, model, 2, Phase::fused).kernelResults(), 3);
  model = {};
  model.mostRecomputedFrom = 0;
  EXPECT_EQ(Compiled(aroundProduct, model, 2, Phase::fused).kernelResults(), 3);
  model = {};
  EXPECT_EQ(Compiled(scalarAroundProduct, model, 2, Phase::fused).kernelResults(), 2);
  model.alwaysRecomputed = 0;
  EXPECT_EQ(Compiled(scalarAroundProduct, model, 2, Phase::fused).kernelResults(), 3);
}

constexpr const char *sums = R"(func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>)
    -> tensor<64xf32> {
  %a = tcc.add %x, %y : tensor<64xf32>
  %b = tcc.add %a, %z : tensor<64xf32>
  return %b : tensor<64xf32>
})";
constexpr const char *siblings = R"(func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = tcc.exp %x : tensor<64xf32>
  %b = tcc.neg %x : tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
})";
constexpr const char *softmax = R"(func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = tcc.softmax %x : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
})";
constexpr const char *scatter = R"(func.func @main(%base: tensor<8x4xf32>, %i: tensor<6xi32>, %x: tensor<6x4xf32>)
    -> (tensor<8x4xf32>, tensor<6x4xf32>) {
  %e = tcc.exp %x : tensor<6x4xf32>
  %s = tcc.scatter_add %base at %i, %e : tensor<8x4xf32>, tensor<6xi32>, tensor<6x4xf32>
  return %s, %e : tensor<8x4xf32>, tensor<6x4xf32>
})";

TEST(TargetModel, LimitsKernels) {
  TargetModel model;
  EXPECT_EQ(Compiled(sums, model, 1, Phase::fused).kernels(), 1);
  model.mostKernelOps = 1;
  EXPECT_EQ(Compiled(sums, model, 1, Phase::fused).kernels(), 2);
  model = {};
  model.mostKernelOperands = 3;
  EXPECT_EQ(Compiled(sums, model, 1, Phase::fused).kernels(), 2);
  model = {};
  EXPECT_EQ(Compiled(siblings, model, 1, Phase::fused).kernels(), 1);
  model.mostSiblings = 1;
  EXPECT_EQ(Compiled(siblings, model, 1, Phase::fused).kernels(), 2);
  model = {};
  EXPECT_EQ(Compiled(softmax, model, 2, Phase::fused).kernels(), 1);
  model.longestKeptRow = 15;
  EXPECT_GT(Compiled(softmax, model, 2, Phase::fused).kernels(), 1);
  model = {};
  EXPECT_EQ(Compiled(scatter, model, 1, Phase::fused).kernels(), 1);
  model.scatterAlone = true;
  EXPECT_EQ(Compiled(scatter, model, 1, Phase::fused).kernels(), 2);
}

/// Two equal sums, each of a matmul's 16 KiB that nobody else reads.
constexpr const char *sumsOfProducts = R"(func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>)
    -> tensor<64x1xf32> {
  %a = tcc.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %sa = tcc.reduce_sum %a axes [1] : tensor<64x64xf32> -> tensor<64x1xf32>
  %b = tcc.matmul %y, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %sb = tcc.reduce_sum %b axes [1] : tensor<64x64xf32> -> tensor<64x1xf32>
  %pa = tcc.matmul %x, %sa : tensor<64x64xf32>, tensor<64x1xf32> -> tensor<64x1xf32>
  %pb = tcc.matmul %y, %sb : tensor<64x64xf32>, tensor<64x1xf32> -> tensor<64x1xf32>
  %p = tcc.add %pa, %pb : tensor<64x1xf32>
  return %p : tensor<64x1xf32>
})";

TEST(TargetModel, JoinsKernelsWithinMemory) {
  auto joined = [](const TargetModel &model) {
    Compiled compiled(sumsOfProducts, model, 2, Phase::planned);
    return llvm::count_if(compiled.all<KernelOp>(), [](KernelOp kernel) { return joinedGroup(kernel).has_value(); });
  };
  TargetModel model;
  EXPECT_EQ(joined(model), 2);
  model.joinedBytes = 16000;
  EXPECT_EQ(joined(model), 0);
}

constexpr const char *heads = R"(func.func @main(%x: tensor<3x4x2x8xf32>, %y: tensor<3x4x2x8xf32>)
    -> tensor<3x2x4x4xf32> {
  %q = tcc.transpose %x [0, 2, 1, 3] : tensor<3x4x2x8xf32> -> tensor<3x2x4x8xf32>
  %k = tcc.transpose %y [0, 2, 1, 3] : tensor<3x4x2x8xf32> -> tensor<3x2x4x8xf32>
  %p = tcc.matmul %q, %k transposed : tensor<3x2x4x8xf32>, tensor<3x2x4x8xf32> -> tensor<3x2x4x4xf32>
  return %p : tensor<3x2x4x4xf32>
})";

TEST(TargetModel, SaysWhatProductsRead) {
  TargetModel model;
  EXPECT_EQ(Compiled(heads, model, 2, Phase::fused).kernels(), 0);
  model.views.batchDims = 1;
  Compiled copied(heads, model, 2, Phase::fused);
  EXPECT_EQ(copied.kernelResults(), 2); // two dense copies
}

/// The first matmul's result is read by a sum and by the second matmul.
constexpr const char *twoProducts = R"(func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %p = tcc.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %s = tcc.add %p, %x : tensor<64x64xf32>
  %q = tcc.matmul %s, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = tcc.add %q, %p : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
})";

TEST(TargetModel, SaysWhatIsStoredInSixteenBits) {
  TargetModel model;
  auto results = [&](ProductType products) {
    std::string bits;
    Compiled compiled(twoProducts, model, 2, Phase::fused, products);
    for (MatmulOp product : compiled.all<MatmulOp>())
      bits += std::to_string(tensorType(product.getA()).getElementTypeBitWidth()) + " to " +
              std::to_string(tensorType(product.getResult()).getElementTypeBitWidth()) + "; ";
    return bits;
  };
  EXPECT_EQ(results(ProductType::bf16), "16 to 32; 16 to 32; ");
  EXPECT_EQ(results(ProductType::f16), "32 to 32; 32 to 32; ") << "no products of f16";
  model.multipliesF16 = true;
  EXPECT_EQ(results(ProductType::f16), "16 to 32; 16 to 32; ");
  model.narrowActivations = true;
  EXPECT_EQ(results(ProductType::bf16), "16 to 16; 16 to 32; ") << "the second one is the caller's";
  EXPECT_EQ(results(ProductType::asWritten), "32 to 32; 32 to 32; ");
}

/// A table that a matmul reads, and its gradient.
constexpr const char *table = R"(func.func @main(%x: tensor<64x8xf32>, %t: tensor<99x8xf32>) -> tensor<99x1xf32> {
  %y = tcc.matmul %x, %t transposed : tensor<64x8xf32>, tensor<99x8xf32> -> tensor<64x99xf32>
  %e = tcc.exp %y : tensor<64x99xf32>
  %g = tcc.matmul %e transposed, %x : tensor<64x99xf32>, tensor<64x8xf32> -> tensor<99x8xf32>
  %s = tcc.reduce_sum %g axes [1] : tensor<99x8xf32> -> tensor<99x1xf32>
  return %s : tensor<99x1xf32>
})";

TEST(TargetModel, SaysWhatProductsGainFromPadding) {
  auto rows = [](const TargetModel &model, ProductType products = ProductType::asWritten) {
    return tensorType(Compiled(table, model, 2, Phase::shaped, products).all<MatmulOp>().back().getResult())
        .getDimSize(0);
  };
  TargetModel model;
  EXPECT_EQ(rows(model), 99);
  model.padding.wide.transposed = 1; // of 100 kflop, for 30 % more of two matmuls
  EXPECT_EQ(rows(model), 99) << "the table is copied";
  model.padding.flopsPerByte = 1;
  EXPECT_EQ(rows(model), 128);
  EXPECT_EQ(rows(model, ProductType::bf16), 99) << "of 16 bits nothing is said";
  model.padding.narrow.other = 1;
  EXPECT_EQ(rows(model, ProductType::bf16), 128);
  model.padding.multiple = 50;
  EXPECT_EQ(rows(model), 100);
  model.padding.enough = 3;
  EXPECT_EQ(rows(model), 99);
  model.padding.multiple = 0;
  EXPECT_EQ(rows(model), 99);
}

/// A bias, an argument that is added, two matmuls that are added up, and a bias whose sum is rounded.
constexpr const char *addedUp = R"(func.func @main(%x: tensor<64x64xf32>, %b: tensor<64xf32>, %r: tensor<64x64xf32>)
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xbf16>) {
  %row = tcc.broadcast %b : tensor<64xf32> -> tensor<64x64xf32>
  %p = tcc.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %s = tcc.add %p, %row : tensor<64x64xf32>
  %q = tcc.matmul %x transposed, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %t = tcc.add %r, %q : tensor<64x64xf32>
  %u = tcc.matmul %x, %x transposed : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %v = tcc.matmul %r, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %y = tcc.add %u, %v : tensor<64x64xf32>
  %w = tcc.matmul %r, %r : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %z = tcc.add %w, %row : tensor<64x64xf32>
  %n = tcc.cast %z : tensor<64x64xf32> -> tensor<64x64xbf16>
  return %s, %t, %y, %n : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xbf16>
})";

TEST(TargetModel, SaysWhatProductsAdd) {
  auto added = [](const TargetModel &model) {
    std::vector<std::string> list; // sorted: fusion orders matmuls by what they wait for
    Compiled compiled(addedUp, model, 2, Phase::fused, ProductType::bf16);
    for (MatmulOp product : compiled.all<MatmulOp>()) {
      std::string text = product.getAddend() ? "addend " : "";
      if (product.getBias())
        text += "bias" + std::to_string(tensorType(product.getBias()).getElementTypeBitWidth()) + " ";
      list.push_back(text);
    }
    llvm::sort(list);
    return llvm::join(list, "");
  };
  TargetModel model;
  EXPECT_EQ(added(model), "addend bias32 bias32 ") << "the argument would be copied";
  model.epilogues.narrowBias = true;
  EXPECT_EQ(added(model), "addend bias16 bias32 ");
  model.epilogues.bias = false;
  EXPECT_EQ(added(model), "addend ");
  model.epilogues.addendPrice = 3; // as much as is saved
  EXPECT_EQ(added(model), "");
  model.epilogues.addendPrice = 2.9;
  model.epilogues.inPlace = false;
  EXPECT_EQ(added(model), "addend addend ");
  model.epilogues.addend = false;
  EXPECT_EQ(added(model), "");
}

/// The gradient of x, which several frozen parameters multiply.
std::string manyOfOne(llvm::ArrayRef<int64_t> widths) {
  std::string inputs, body, sum = "%s0";
  for (auto [i, width] : llvm::enumerate(widths)) {
    inputs += llvm::formatv(", %w{0}: tensor<8x{1}xf32>", i, width);
    body += llvm::formatv("  %p{0} = tcc.matmul %x, %w{0} : tensor<64x8xf32>, tensor<8x{1}xf32> -> tensor<64x{1}xf32>\n"
                          "  %m{0} = tcc.tanh %p{0} : tensor<64x{1}xf32>\n"
                          "  %s{0} = tcc.reduce_sum %m{0} axes [0, 1] : tensor<64x{1}xf32> -> tensor<1x1xf32>\n",
                          i, width);
  }
  for (size_t i = 1; i < widths.size(); ++i) {
    body += llvm::formatv("  %u{0} = tcc.add {1}, %s{0} : tensor<1x1xf32>\n", i, sum);
    sum = llvm::formatv("%u{0}", i);
  }
  return "func.func @main(%x: tensor<64x8xf32>" + inputs + ") -> tensor<64x8xf32> {\n" + body +
         "  %loss = tcc.reshape " + sum +
         " : tensor<1x1xf32> -> tensor<f32>\n  %dx = tcc.gradient %loss wrt %x : tensor<f32>, tensor<64x8xf32>\n"
         "  return %dx : tensor<64x8xf32>\n}\n";
}

TEST(TargetModel, SaysWhetherMatmulsAreJoined) {
  auto products = [](double price, llvm::ArrayRef<int64_t> widths, ProductType type = ProductType::asWritten) {
    TargetModel model;
    model.epilogues.addendPrice = price;
    return Compiled(manyOfOne(widths).c_str(), model, 2, Phase::joint, type).all<MatmulOp>().size();
  };
  // A sum of 64 * 8 elements is 2048 bytes; a column's copies are 2 * 4 * 8 and 2 * 4 * 64.
  EXPECT_EQ(products(6.7, {16, 16, 16}), 6u);
  EXPECT_EQ(products(6.8, {16, 16, 16}), 2u); // 2 * 6.75 * 2048 is 48 * 576
  EXPECT_EQ(products(0, {1, 1}), 4u);
  EXPECT_EQ(products(9, {1, 64, 2}), 4u) << "the widest stays apart";
  EXPECT_EQ(products(0.8, {1, 64, 2}), 6u);
  EXPECT_EQ(products(9.5, {1, 64, 2}), 2u);
  // A cast to 16 bits writes the parameters anyway.
  EXPECT_EQ(products(6.1, {16, 16, 16}, ProductType::bf16), 2u); // 2 * 6 * 2048 is 48 * 512
  EXPECT_EQ(products(5.9, {16, 16, 16}, ProductType::bf16), 6u);
}

TEST(TargetModel, AlignsTheArena) {
  const char *text = R"(func.func @main(%x: tensor<25x25xf32>) -> tensor<25x25xf32> {
  %a = tcc.matmul %x, %x : tensor<25x25xf32>, tensor<25x25xf32> -> tensor<25x25xf32>
  %b = tcc.matmul %a, %x : tensor<25x25xf32>, tensor<25x25xf32> -> tensor<25x25xf32>
  return %b : tensor<25x25xf32>
})";
  TargetModel model;
  EXPECT_EQ(Compiled(text, model, 2, Phase::planned).report.arenaBytes, 2560); // 2500 in 64s
  model.alignment = 1024;
  EXPECT_EQ(Compiled(text, model, 2, Phase::planned).report.arenaBytes, 3072);
}

TEST(TargetModel, NameStandsOnTheModule) {
  TargetModel model;
  model.name = "other";
  Compiled compiled(sums, model, 2, Phase::joint);
  EXPECT_EQ((*compiled.module)->getAttrOfType<StringAttr>(targetAttr).getValue(), "other");
  Messages said(compiled.context.get());
  PipelineReport report;
  EXPECT_TRUE(failed(runPipeline(*compiled.module, PipelineOptions(), report)));
  EXPECT_EQ(said.text, "the module was compiled for target 'other'; it cannot go on for 'cpu'\n");
}

} // namespace
} // namespace tcc::test
