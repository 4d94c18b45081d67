// The interpreter itself: modes, `?` sizes, kernels, refusals, random bits, rounding, and the comparison rule.
#include "tests/ops/differentiate.h"
#include "tests/ops/op_table.h"
#include "tests/ops/random_elements.h"
#include "llvm/ADT/APFloat.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

using Data = std::vector<double>;

class Interpreter : public ::testing::Test {
protected:
  /// Runs text's @main; on failure `error` is set and nothing is returned.
  std::vector<RefTensor> run(const std::string &text, ArrayRef<RefTensor> inputs, RefMode mode = RefMode::exact) {
    std::string messages;
    module = parseText(*context, text, messages);
    EXPECT_TRUE(module) << messages;
    if (!module)
      return {};
    const auto results = interpret(mainOf(*module), inputs, mode);
    error = results.error().message();
    return results ? *results : std::vector<RefTensor>();
  }

  RefTensor tensor(ArrayRef<int64_t> shape, Data data, StringRef element = "f32") {
    Type type = element == "f32"    ? Type(Float32Type::get(context.get()))
                : element == "bf16" ? Type(BFloat16Type::get(context.get()))
                                    : Type(IntegerType::get(context.get(), element == "i64"  ? 64
                                                                           : element == "i1" ? 1
                                                                                             : 32));
    return {RankedTensorType::get(shape, type), std::move(data)};
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module;
  std::string error; // of the last run
};

TEST_F(Interpreter, castsRoundInOneModeAlone) {
  std::string text = R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %narrow = tcc.cast %x : tensor<2xf32> -> tensor<2xbf16>
    %r = tcc.cast %narrow : tensor<2xbf16> -> tensor<2xf32>
    return %r : tensor<2xf32>
  })";
  RefTensor x = tensor({2}, {1.00390625, 3.14159});
  EXPECT_EQ(run(text, x)[0].data, x.data);
  EXPECT_EQ(run(text, x, RefMode::rounding)[0].data, (Data{1.0, 3.140625})); // a tie goes to even
}

/// The mean of nothing, whether there is no row or none counts; as the composite and as its decomposition.
TEST_F(Interpreter, theLossOfNoRowIsNan) {
  for (const int64_t rows : {0, 2}) {
    const std::string logits = "tensor<" + std::to_string(rows) + "x3xf32>",
                      targets = "tensor<" + std::to_string(rows) + "xi32>";
    const std::string text = "func.func @main(%x: " + logits + ", %t: " + targets +
                             ") -> tensor<f32> {\n  %r = tcc.cross_entropy %x, %t : " + logits + ", " + targets +
                             " -> tensor<f32>\n  return %r : tensor<f32>\n}";
    const std::vector<RefTensor> inputs = {tensor({rows, 3}, Data(static_cast<size_t>(3 * rows), 1)),
                                           tensor({rows}, Data(static_cast<size_t>(rows), -1), "i32")};
    EXPECT_TRUE(std::isnan(run(text, inputs)[0].data[0])) << rows;
    decomposeAll(mainOf(*module));
    const auto decomposed = interpret(mainOf(*module), inputs, RefMode::exact);
    ASSERT_TRUE(decomposed) << decomposed.error().message();
    EXPECT_TRUE(std::isnan((*decomposed)[0].data[0])) << rows;
  }
}

TEST_F(Interpreter, sumsAccumulateWideAndRoundOnce) {
  std::string text = R"(func.func @main(%x: tensor<300xbf16>) -> tensor<1xbf16> {
    %r = tcc.reduce_sum %x axes [0] : tensor<300xbf16> -> tensor<1xbf16>
    return %r : tensor<1xbf16>
  })";
  // In bf16 a running sum of ones would stay at 256.
  EXPECT_EQ(run(text, tensor({300}, Data(300, 1), "bf16"), RefMode::rounding)[0].data, Data{300});
}

TEST_F(Interpreter, integersWrap) {
  std::string text = R"(func.func @main(%a: tensor<2xi32>, %b: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
    %sum = tcc.add %a, %b : tensor<2xi32>
    %product = tcc.mul %a, %b : tensor<2xi32>
    return %sum, %product : tensor<2xi32>, tensor<2xi32>
  })";
  auto results = run(text, {tensor({2}, {2147483647, 2147483647}, "i32"), tensor({2}, {1, 2147483647}, "i32")});
  EXPECT_EQ(results[0].data, (Data{-2147483648.0, -2}));
  EXPECT_EQ(results[1].data, (Data{2147483647, 1}));
}

TEST_F(Interpreter, unknownSizesComeFromTheArguments) {
  std::string text = R"(func.func @main(%x: tensor<?x?x4xf32>, %bias: tensor<4xf32>) -> tensor<?x4xf32> {
    %wide = tcc.broadcast %bias like %x : tensor<?x?x4xf32> : tensor<4xf32> -> tensor<?x?x4xf32>
    %sum = tcc.add %x, %wide : tensor<?x?x4xf32>
    %r = tcc.reshape %sum : tensor<?x?x4xf32> -> tensor<?x4xf32>
    return %r : tensor<?x4xf32>
  })";
  auto results = run(text, {tensor({3, 2, 4}, Data(24, 1)), tensor({4}, {0, 1, 2, 3})});
  // The first `?` of the reshape is not the operand's first, although it stands at the same place.
  ASSERT_TRUE(results.empty());
  EXPECT_NE(error.find("reshape_c1"), std::string::npos) << error;

  results = run(R"(func.func @main(%x: tensor<?x3x4xf32>, %bias: tensor<4xf32>) -> tensor<?x12xf32> {
    %wide = tcc.broadcast %bias like %x : tensor<?x3x4xf32> : tensor<4xf32> -> tensor<?x3x4xf32>
    %sum = tcc.add %x, %wide : tensor<?x3x4xf32>
    %r = tcc.reshape %sum : tensor<?x3x4xf32> -> tensor<?x12xf32>
    return %r : tensor<?x12xf32>
  })",
                {tensor({2, 3, 4}, Data(24, 1)), tensor({4}, {0, 1, 2, 3})});
  ASSERT_EQ(results.size(), 1u) << error;
  EXPECT_EQ(results[0].shape(), (ArrayRef<int64_t>{2, 12}));
  EXPECT_EQ(results[0].data[7], 4);
}

TEST_F(Interpreter, unknownSizesThatDifferAreRefused) {
  std::string text = R"(func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %r = tcc.add %a, %b : tensor<?xf32>
    return %r : tensor<?xf32>
  })";
  EXPECT_TRUE(run(text, {tensor({2}, {1, 2}), tensor({3}, {1, 2, 3})}).empty());
  EXPECT_NE(error.find("differ in shape"), std::string::npos) << error;
}

TEST_F(Interpreter, kernelsRunTheirRegion) {
  std::string text = R"(func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>) {
    %r:2 = tcc.kernel (%x = %a : tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>) {
      %sum = tcc.reduce_sum %x axes [1] : tensor<2x3xf32> -> tensor<2x1xf32>
      %wide = tcc.broadcast %sum : tensor<2x1xf32> -> tensor<2x3xf32>
      %y = tcc.div %x, %wide : tensor<2x3xf32>
      tcc.yield %y, %sum : tensor<2x3xf32>, tensor<2x1xf32>
    }
    return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x1xf32>
  })";
  auto results = run(text, tensor({2, 3}, {1, 1, 2, 0, 4, 4}));
  ASSERT_EQ(results.size(), 2u) << error;
  EXPECT_EQ(results[0].data, (Data{0.25, 0.25, 0.5, 0, 0.5, 0.5}));
  EXPECT_EQ(results[1].data, (Data{4, 8}));
}

TEST_F(Interpreter, refusals) {
  EXPECT_TRUE(run(R"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %g = tcc.gradient %x wrt %x : tensor<f32>, tensor<f32>
    return %g : tensor<f32>
  })",
                  tensor({}, {1}))
                  .empty());
  EXPECT_NE(error.find("run autodiff first"), std::string::npos) << error;

  std::string identity = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
  EXPECT_TRUE(run(identity, {}).empty());
  EXPECT_NE(error.find("takes 1 arguments, 0 were given"), std::string::npos) << error;
  EXPECT_TRUE(run(identity, tensor({3}, {1, 2, 3})).empty());
  EXPECT_NE(error.find("argument 0 is 3xf32"), std::string::npos) << error;
  EXPECT_TRUE(run(identity, tensor({2}, {1})).empty()); // data of another size
  EXPECT_TRUE(run("func.func @main(%x: tensor<f32>) -> tensor<f32> { %r = arith.negf %x : tensor<f32> return %r : "
                  "tensor<f32> }",
                  tensor({}, {1}))
                  .empty());
  EXPECT_NE(error.find("is not an op"), std::string::npos) << error;
}

TEST_F(Interpreter, indicesOutsideAreSeenOrDropped) {
  std::string gather = R"(func.func @main(%t: tensor<2x2xf32>, %i: tensor<4xi32>) -> tensor<4x2xf32> {
    %r = tcc.gather %t at %i : tensor<2x2xf32>, tensor<4xi32> -> tensor<4x2xf32>
    return %r : tensor<4x2xf32>
  })";
  Data rows = run(gather, {tensor({2, 2}, {1, 2, 3, 4}), tensor({4}, {1, -1, 2, 0}, "i32")})[0].data;
  EXPECT_EQ((Data{rows[0], rows[1], rows[6], rows[7]}), (Data{3, 4, 1, 2}));
  for (int i = 2; i < 6; ++i)
    EXPECT_TRUE(std::isnan(rows[i]));
  std::string scatter = R"(func.func @main(%t: tensor<2xf32>, %i: tensor<4xi32>, %v: tensor<4xf32>) -> tensor<2xf32> {
    %r = tcc.scatter_add %t at %i, %v : tensor<2xf32>, tensor<4xi32>, tensor<4xf32>
    return %r : tensor<2xf32>
  })";
  EXPECT_EQ(run(scatter, {tensor({2}, {10, 20}), tensor({4}, {1, -1, 2, 1}, "i32"), tensor({4}, {1, 2, 4, 8})})[0].data,
            (Data{10, 29}));
}

TEST_F(Interpreter, adamwKeepsOldBitsWhereNotApplied) {
  std::string text =
      R"(func.func @main(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>, %s: tensor<f32>, %on: tensor<i1>)
      -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %r:3 = tcc.adamw %p, %g, %m, %v lr %s step %s scale %s apply %on {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}
      : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    return %r#0, %r#1, %r#2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  })";
  double nan = std::numeric_limits<double>::quiet_NaN();
  auto results = run(text, {tensor({2}, {1, -0.0}), tensor({2}, {nan, 1}), tensor({2}, {2, 3}), tensor({2}, {4, 5}),
                            tensor({}, {1}), tensor({}, {0}, "i1")});
  ASSERT_EQ(results.size(), 3u) << error;
  EXPECT_EQ(results[0].data, (Data{1, -0.0}));
  EXPECT_TRUE(std::signbit(results[0].data[1]));
  EXPECT_EQ(results[1].data, (Data{2, 3}));
  EXPECT_EQ(results[2].data, (Data{4, 5}));
}

//===- random bits, rounding -----------------------------------------------------------------------------------===//

TEST(Philox, knownAnswers) {
  EXPECT_EQ(philoxWords({0, 0, 0, 0}, {0, 0})[0], 0x6627e8d5u); // Random123's vector for counter 0 and key 0
  for (uint32_t number : {1u, 77u, 0xffffffffu})
    for (uint32_t seed : {0u, 7u, 0xffffffffu})
      EXPECT_EQ(philoxWords({number, 5, 0, number + 3}, {seed, 9}),
                philox4x32({number, 5, 0, number + 3}, {seed, 9}));
}

TEST(Philox, bitsAreEven) {
  int64_t ones = 0, negatives = 0;
  for (uint32_t i = 0; i < 20000; ++i) {
    uint32_t bits = randomBitsAt(42, 7, {i / 400, i / 20 % 20, i % 20});
    ones += __builtin_popcount(bits);
    negatives += static_cast<int32_t>(bits) < 0;
  }
  EXPECT_NEAR(ones / (20000.0 * 32), 0.5, 0.005);
  EXPECT_NEAR(negatives / 20000.0, 0.5, 0.02);
}

class RandomBits : public Interpreter {
protected:
  /// The bits of a result of type `shape` ("2x3"), stream 3; `more` stands after the stream.
  Data bits(const RefTensor &seed, const std::string &shape, const std::string &more = "") {
    std::string type = "tensor<" + shape + (shape.empty() ? "" : "x") + "i32>",
                seedType = "tensor<" + typeText(seed.type) + ">";
    RefTensor first = tensor({}, {firstIndex}, "i32");
    return run("func.func @main(%s: " + seedType + ", %f: tensor<i32>) -> " + type +
                   " {\n %r = tcc.random_bits %s stream 3 " + more + " : " + seedType + " -> " + type +
                   "\n return %r : " + type + "\n}",
               {seed, first})[0]
        .data;
  }

  double firstIndex = 0;
};

TEST_F(RandomBits, areThoseOfTheElementsCoordinates) {
  RefTensor seed = tensor({}, {1234}, "i32");
  EXPECT_EQ(bits(seed, "2x19x37"), randomElements(1234, 3, 2, 19, 37));
  EXPECT_EQ(bits(seed, "3x2x5x9"), randomElements(1234, 3, 6, 5, 9));
  EXPECT_EQ(bits(seed, "19x37"), randomElements(1234, 3, 1, 19, 37));
  EXPECT_EQ(bits(seed, "37"), randomElements(1234, 3, 1, 1, 37));
  EXPECT_EQ(bits(seed, ""), randomElements(1234, 3, 1, 1, 1));
}

TEST_F(RandomBits, seedsCountWhole) {
  EXPECT_EQ(bits(tensor({}, {-5}, "i32"), "17"), randomElements(0xfffffffb, 3, 1, 1, 17));
  EXPECT_EQ(bits(tensor({}, {-5}, "i64"), "17"), randomElements(uint64_t(-5), 3, 1, 1, 17));
  EXPECT_EQ(bits(tensor({}, {77 + 4294967296.0 * 3}, "i64"), "17"), randomElements((3ull << 32) + 77, 3, 1, 1, 17));
}

TEST_F(RandomBits, aPartHasTheBitsThatItHasInTheWhole) {
  RefTensor seed = tensor({}, {1234}, "i32");
  for (std::string rest : {"", "x12", "x5x20", "x3x5x20"}) {
    Data whole = bits(seed, "24" + rest);
    Data parts;
    for (firstIndex = 0; firstIndex < 24; firstIndex += 6)
      llvm::append_range(parts, bits(seed, "6" + rest, "first %f"));
    EXPECT_EQ(parts, whole) << "24" << rest;
  }
}

TEST_F(RandomBits, paddingChangesNone) {
  RefTensor seed = tensor({}, {1234}, "i32");
  Data large = bits(seed, "3x24x64"), small = bits(seed, "2x17x33"), cut;
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t r = 0; r < 17; ++r)
      for (int64_t c = 0; c < 33; ++c)
        cut.push_back(large[(o * 24 + r) * 64 + c]);
  EXPECT_EQ(cut, small);
}

TEST(Rounding, equalsAPFloat) {
  auto context = makeContext();
  Builder b(context.get());
  MLIRContext *c = context.get();
  const FloatType types[] = {b.getF32Type(), b.getBF16Type(), b.getF16Type(), Float8E4M3FNType::get(c),
                             Float8E5M2Type::get(c)};
  auto random = [](uint32_t seed, uint64_t i) {
    return philoxWords({static_cast<uint32_t>(i), 0, 0, 0}, {seed, 0})[0];
  };
  for (FloatType type : types) {
    std::vector<double> samples = {0.0, -0.0, INFINITY, -INFINITY, NAN,   1e300, -1e300, 1e-300, 448,
                                   464, 465,  480,      57344,     61440, 65504, 65520,  3.4e38, 3.5e38};
    for (uint64_t i = 0; i < 20000; ++i) { // all exponents, ties among them
      double significand = 1 + (random(1, i) % (1 << 12)) / 4096.0 * (i % 2 ? 1 : 1 + 1e-6);
      int exponent = static_cast<int>(random(2, i) % 320) - 170;
      samples.push_back((i % 3 ? 1 : -1) * std::ldexp(significand, i % 5 ? exponent / 8 : exponent));
    }
    for (double sample : samples) {
      APFloat expected(sample);
      bool lossy = false;
      expected.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
      double want = expected.convertToDouble(), got = roundToElement(sample, type);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << sample;
      else
        EXPECT_TRUE(want == got && std::signbit(want) == std::signbit(got))
            << sample << ": " << got << ", not " << want;
    }
  }
}

TEST(RandomTensor, staysInItsDomain) {
  auto context = makeContext();
  Builder b(context.get());
  RefTensor floats = randomTensor(RankedTensorType::get({1000}, b.getF32Type()), 1, -3, 5);
  EXPECT_GE(*llvm::min_element(floats.data), -3);
  EXPECT_LE(*llvm::max_element(floats.data), 5);
  EXPECT_NE(floats.data, randomTensor(floats.type, 2, -3, 5).data);
  EXPECT_EQ(floats.data, randomTensor(floats.type, 1, -3, 5).data);
  RefTensor integers = randomTensor(RankedTensorType::get({1000}, b.getI32Type()), 1, 0, 4);
  EXPECT_EQ((std::set<double>(integers.data.begin(), integers.data.end())), (std::set<double>{0, 1, 2, 3}));
  RefTensor flags = randomTensor(RankedTensorType::get({1000}, b.getI1Type()), 1);
  EXPECT_EQ((std::set<double>(flags.data.begin(), flags.data.end())), (std::set<double>{0, 1}));
}

//===- the comparison rule -------------------------------------------------------------------------------------===//

class Compare : public ::testing::Test {
protected:
  RefTensor tensor(Data data) {
    return {RankedTensorType::get({static_cast<int64_t>(data.size())}, Float32Type::get(context.get())), data};
  }
  std::unique_ptr<MLIRContext> context = makeContext();
  double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  double ulp = std::ldexp(1.0, -23);
};

TEST_F(Compare, allowsFourUlpsOfTheScaleOrTwiceTheUnfusedError) {
  RefTensor exact = tensor({1, 0.001});
  EXPECT_TRUE(compare(tensor({1, 0.001 + 4 * ulp}), exact, exact).ok);
  EXPECT_FALSE(compare(tensor({1, 0.001 + 5 * ulp}), exact, exact).ok);
  RefTensor unfused = tensor({1 + 10 * ulp, 0.001});
  EXPECT_TRUE(compare(tensor({1, 0.001 + 19 * ulp}), exact, unfused).ok);
  EXPECT_FALSE(compare(tensor({1, 0.001 + 21 * ulp}), exact, unfused).ok);
}

TEST_F(Compare, specialValuesMustBeWhereTheyBelong) {
  RefTensor exact = tensor({1, nan, inf, 1e39});
  RefTensor right = tensor({1, nan, inf, inf}); // 1e39 is infinite in f32
  EXPECT_TRUE(compare(right, exact, right).ok);
  for (size_t i = 0; i < 4; ++i)
    for (double wrong : {nan, inf, -inf, 2.0}) {
      RefTensor actual = right;
      actual.data[i] = wrong;
      bool same = right.data[i] == wrong || (std::isnan(right.data[i]) && std::isnan(wrong));
      EXPECT_EQ(compare(actual, exact, right).ok, same) << i << " " << wrong;
    }
}

TEST_F(Compare, excludedElementsAreCounted) {
  RefTensor exact = tensor({1, 2}), actual = tensor({9, 2});
  EXPECT_FALSE(compare(actual, exact, exact).ok);
  Comparison comparison = compare(actual, exact, exact, {true, false});
  EXPECT_TRUE(comparison.ok);
  EXPECT_EQ(comparison.excluded, 1);
}

TEST_F(Compare, findsElementsThatJump) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %zero = tcc.constant dense<1.0> : tensor<3xf32>
    %c = tcc.compare ge %x, %zero : tensor<3xf32> -> tensor<3xi1>
    %r = tcc.select %c, %x, %zero : tensor<3xi1>, tensor<3xf32>
    %n = tcc.neg %r : tensor<3xf32>
    %s = tcc.select %c, %n, %x : tensor<3xi1>, tensor<3xf32>
    return %s : tensor<3xf32>
  })",
                                           messages);
  ASSERT_TRUE(module) << messages;
  RefTensor x = tensor({0.5, 1, 2});
  auto exact = interpret(mainOf(*module), x, RefMode::exact);
  ASSERT_TRUE(exact);
  auto jumps = findJumps(mainOf(*module), x, *exact);
  ASSERT_TRUE(jumps);
  EXPECT_EQ((*jumps)[0], (std::vector<bool>{false, true, false}));
}

} // namespace
} // namespace tcc::test
