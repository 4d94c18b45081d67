// Index maps: transposes, slices, pads, concatenation, gather, scatter_add, numbers and random bits.
#include "kernel_runner.h"
#include "tests/ops/random_elements.h"

using namespace tcc;
using namespace tcc::test;

namespace {

RefTensor integers(std::vector<int64_t> shape, std::vector<double> values) {
  static mlir::MLIRContext context;
  return {mlir::RankedTensorType::get(shape, mlir::IntegerType::get(&context, 32)), std::move(values)};
}

RefTensor floats(std::vector<int64_t> shape, uint64_t seed) {
  static mlir::MLIRContext context;
  return randomTensor(mlir::RankedTensorType::get(shape, mlir::Float32Type::get(&context)), seed);
}

TEST(CpuViews, Transposes) {
  for (const char *element : {"f32", "bf16", "i1", "i64"}) {
    std::string e = element;
    expectLikeInterpreter({{{"x", "21x34x" + e}},
                           {{"y", "34x21x" + e}},
                           "%y = tcc.transpose %x [1, 0] : tensor<21x34x" + e + "> -> tensor<34x21x" + e + ">"});
  }
  expectLikeInterpreter({{{"x", "2x6x4x16xf32"}},
                         {{"y", "2x4x6x16xf32"}},
                         "%y = tcc.transpose %x [0, 2, 1, 3] : tensor<2x6x4x16xf32> -> tensor<2x4x6x16xf32>"});
}

TEST(CpuViews, SplitHeads) { // [B, T, 3·H·d] -> q of [B, H, T, d]
  for (int64_t d : {16, 12}) {
    std::string width = std::to_string(3 * 2 * d), half = std::to_string(2 * d), head = std::to_string(d);
    expectLikeInterpreter({{{"x", "2x5x" + width + "xf32"}},
                           {{"q", "2x2x5x" + head + "xf32"}},
                           "%s = tcc.slice %x [0, 0, " + half + "] to [2, 5, " + std::to_string(4 * d) +
                               "] : tensor<2x5x" + width + "xf32> -> tensor<2x5x" + half + "xf32>\n" +
                               "%r = tcc.reshape %s : tensor<2x5x" + half + "xf32> -> tensor<2x5x2x" + head +
                               "xf32>\n%q = tcc.transpose %r [0, 2, 1, 3] : tensor<2x5x2x" + head +
                               "xf32> -> tensor<2x2x5x" + head + "xf32>"});
  }
}

TEST(CpuViews, VectorRepeatedWithinRows) { // w[column mod d], for d that vectors divide and that they do not
  for (const char *d : {"8", "16", "24", "5"}) {
    std::string full = std::string("5x6x") + d + "xf32", w = std::string(d) + "xf32";
    expectLikeInterpreter({{{"x", full}, {"w", w}},
                           {{"y", full}, {"s", "5x1x1xf32"}},
                           "%b = tcc.broadcast %w : tensor<" + w + "> -> tensor<" + full +
                               ">\n%y = tcc.mul %x, %b : tensor<" + full +
                               ">\n%s = tcc.reduce_sum %y axes [1, 2] : tensor<" + full + "> -> tensor<5x1x1xf32>"});
  }
}

TEST(CpuViews, PadAndSlice) {
  expectLikeInterpreter({{{"x", "5x7xf32"}},
                         {{"y", "9x20xf32"}},
                         "%y = tcc.pad %x [1, 3], [3, 10] : tensor<5x7xf32> -> tensor<9x20xf32>"});
  expectLikeInterpreter({{{"x", "6x40xf32"}}, {{"y", "3x33xf32"}}, R"(
    %s = tcc.slice %x [2, 5] to [5, 38] : tensor<6x40xf32> -> tensor<3x33xf32>
    %y = tcc.exp %s : tensor<3x33xf32>)"});
  expectLikeInterpreter({{{"x", "4x48xf32"}}, {{"y", "4x96xf32"}}, R"(
    %n = tcc.neg %x : tensor<4x48xf32>
    %p = tcc.pad %n [0, 48], [0, 0] : tensor<4x48xf32> -> tensor<4x96xf32>
    %one = tcc.constant dense<1.0> : tensor<4x96xf32>
    %y = tcc.add %p, %one : tensor<4x96xf32>)"});
}

TEST(CpuViews, PaddedRows) { // rows that do not exist stand beside those that do; some rows have less than a vector
  for (const char *element : {"f32", "bf16", "f16", "i32"})
    for (const char *columns : {"1", "5", "16", "37", "64"}) {
      auto type = [&](const char *rows) { return std::string("tensor<") + rows + "x" + columns + "x" + element + ">"; };
      const std::string shape = std::string("x") + columns + "x" + element;
      expectLikeInterpreter({{{"x", "3" + shape}},
                             {{"y", "7" + shape}},
                             "%p = tcc.pad %x [1, 0], [3, 0] : " + type("3") + " -> " + type("7") +
                                 "\n%q = tcc.pad %x [4, 0], [0, 0] : " + type("3") + " -> " + type("7") +
                                 "\n%y = tcc.add %p, %q : " + type("7")});
    }
}

TEST(CpuViews, PaddedHeads) { // heads joined, then shifted by columns that vectors do not divide
  for (const char *low : {"3", "16"})
    expectLikeInterpreter({{{"x", "2x5x16xf32"}},
                           {{"y", "5x64xf32"}},
                           std::string(R"(
      %t = tcc.transpose %x [1, 0, 2] : tensor<2x5x16xf32> -> tensor<5x2x16xf32>
      %r = tcc.reshape %t : tensor<5x2x16xf32> -> tensor<5x32xf32>
      %p = tcc.pad %r [0, )") + low +
                               "], [0, " + std::to_string(32 - std::atoi(low)) +
                               R"(] : tensor<5x32xf32> -> tensor<5x64xf32>
      %y = tcc.neg %p : tensor<5x64xf32>)"});
}

TEST(CpuViews, JoinedHeadsWithColumnSums) { // three [B, H, T, d] as one [B, T, 3·H·d], and its sum over T
  for (int64_t blocks : {2, 9}) {
    std::string n = std::to_string(blocks), head = n + "x2x5x16xf32", split = n + "x5x2x16xf32", part = n + "x5x32xf32",
                all = n + "x5x96xf32";
    auto padded = [&](const std::string &name, int low, int high) {
      return "%t" + name + " = tcc.transpose %" + name + " [0, 2, 1, 3] : tensor<" + head + "> -> tensor<" + split +
             ">\n%r" + name + " = tcc.reshape %t" + name + " : tensor<" + split + "> -> tensor<" + part + ">\n%p" +
             name + " = tcc.pad %r" + name + " [0, 0, " + std::to_string(low) + "], [0, 0, " + std::to_string(high) +
             "] : tensor<" + part + "> -> tensor<" + all + ">\n";
    };
    expectLikeInterpreter({{{"q", head}, {"k", head}, {"v", head}},
                           {{"y", all}, {"s", n + "x1x96xf32"}},
                           padded("q", 0, 64) + padded("k", 32, 32) + padded("v", 64, 0) +
                               "%a = tcc.add %pq, %pk : tensor<" + all + ">\n%y = tcc.add %a, %pv : tensor<" + all +
                               ">\n%s = tcc.reduce_sum %y axes [1] : tensor<" + all + "> -> tensor<" + n +
                               "x1x96xf32>"});
  }
}

TEST(CpuViews, Concatenation) {
  for (auto [axis, a, b, c] : {std::tuple(1, "3x10xf32", "3x23xf32", "3x33xf32"),
                               {0, "2x20xf32", "5x20xf32", "7x20xf32"},
                               {1, "3x16xf32", "3x32xf32", "3x48xf32"}}) {
    std::string A = a, B = b, C = c;
    expectLikeInterpreter({{{"a", A}, {"b", B}},
                           {{"y", C}},
                           "%e = tcc.exp %a : tensor<" + A + ">\n%y = tcc.concat %e, %b axis " + std::to_string(axis) +
                               " : tensor<" + A + ">, tensor<" + B + "> -> tensor<" + C + ">"});
  }
}

TEST(CpuViews, ManyParts) { // as what a rank sends; most begin within a vector, and one is computed
  const int sizes[] = {1, 13, 64, 500, 7, 1024, 129, 8, 2000, 31, 3, 640, 17, 256, 90, 2048, 5};
  for (const std::string rows : {"", "2x"}) {
    KernelText text{{}, {}, ""};
    std::string parts, types;
    int whole = 0;
    for (size_t i = 0; i < std::size(sizes); ++i) {
      const std::string name = "x" + std::to_string(i), type = rows + std::to_string(sizes[i]) + "xf32";
      text.inputs.push_back({name, type});
      if (i == 4)
        text.body += "%e = tcc.exp %x4 : tensor<" + type + ">\n";
      parts += (i ? ", %" : "%") + (i == 4 ? "e" : name);
      types += (i ? ", tensor<" : "tensor<") + type + ">";
      whole += sizes[i];
    }
    const std::string type = rows + std::to_string(whole) + "xf32";
    text.results.push_back({"y", type});
    text.body +=
        "%y = tcc.concat " + parts + " axis " + (rows.empty() ? "0" : "1") + " : " + types + " -> tensor<" + type + ">";
    expectLikeInterpreter(text);
  }
}

TEST(CpuViews, RotaryHalves) {
  expectLikeInterpreter({{{"x", "6x32xf32"}, {"cos", "6x32xf32"}, {"sin", "6x32xf32"}}, {{"y", "6x32xf32"}}, R"(
    %lo = tcc.slice %x [0, 0] to [6, 16] : tensor<6x32xf32> -> tensor<6x16xf32>
    %hi = tcc.slice %x [0, 16] to [6, 32] : tensor<6x32xf32> -> tensor<6x16xf32>
    %n = tcc.neg %hi : tensor<6x16xf32>
    %r = tcc.concat %n, %lo axis 1 : tensor<6x16xf32>, tensor<6x16xf32> -> tensor<6x32xf32>
    %a = tcc.mul %x, %cos : tensor<6x32xf32>
    %b = tcc.mul %r, %sin : tensor<6x32xf32>
    %y = tcc.add %a, %b : tensor<6x32xf32>)"});
}

TEST(CpuIndexing, EmbeddingAndPositions) {
  KernelText text{{{"table", "9x40xf32"}, {"pos", "3x40xf32"}, {"index", "2x3xi32"}}, {{"y", "2x3x40xf32"}}, R"(
    %g = tcc.gather %table at %index : tensor<9x40xf32>, tensor<2x3xi32> -> tensor<2x3x40xf32>
    %p = tcc.broadcast %pos : tensor<3x40xf32> -> tensor<2x3x40xf32>
    %y = tcc.add %g, %p : tensor<2x3x40xf32>)"};
  expectLikeInterpreter(text, {floats({9, 40}, 1), floats({3, 40}, 2), integers({2, 3}, {0, 8, 3, -1, 9, 5})});
}

TEST(CpuIndexing, OneElementARow) {
  KernelText text{{{"x", "6x20xf32"}, {"table", "5xf32"}, {"index", "6xi32"}}, {{"y", "6x20xf32"}}, R"(
    %g = tcc.gather %table at %index : tensor<5xf32>, tensor<6xi32> -> tensor<6xf32>
    %r = tcc.reshape %g : tensor<6xf32> -> tensor<6x1xf32>
    %b = tcc.broadcast %r : tensor<6x1xf32> -> tensor<6x20xf32>
    %y = tcc.mul %x, %b : tensor<6x20xf32>)"};
  expectLikeInterpreter(text, {floats({6, 20}, 1), floats({5}, 2), integers({6}, {0, 4, 5, -1, 2, 1000000})});
}

TEST(CpuIndexing, GatherElements) {
  KernelText text{{{"table", "30xf32"}, {"index", "40xi32"}},
                  {{"y", "40xf32"}},
                  "%y = tcc.gather %table at %index : tensor<30xf32>, tensor<40xi32> -> tensor<40xf32>"};
  std::vector<double> index;
  for (int i = 0; i < 40; ++i)
    index.push_back((i * 7) % 33 - 1);
  expectLikeInterpreter(text, {floats({30}, 1), integers({40}, index)});
}

TEST(CpuIndexing, ScatterAddInAscendingRows) {
  for (auto [columns, element] : {std::pair(40, "f32"), {200, "f32"}, {5, "f32"}}) {
    std::string base = "7x" + std::to_string(columns) + "x" + element,
                rows = "11x" + std::to_string(columns) + "x" + element;
    KernelText text{{{"base", base}, {"index", "11xi32"}, {"rows", rows}},
                    {{"y", base}},
                    "%y = tcc.scatter_add %base at %index, %rows : tensor<" + base + ">, tensor<11xi32>, tensor<" +
                        rows + ">"};
    RefTensor index = integers({11}, {0, 3, 3, 6, -1, 3, 7, 0, 1, 1, 6});
    std::vector<RefTensor> inputs = {floats({7, columns}, 1), index, floats({11, columns}, 2)};
    expectLikeInterpreter(text, inputs);
    cpu::EmitOptions options;
    LoadedKernel kernel(text, options);
    ASSERT_EQ(kernel.error, "");
    std::vector<RefTensor> here = kernel.randomInputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      here[i].data = inputs[i].data;
    EXPECT_EQ(kernel.run(here)[0].data, kernel.run(here, 1, false, {0})[0].data) << "in the base's own buffer";
  }
}

TEST(CpuIndexing, NumbersAndRandomBits) {
  expectLikeInterpreter({{}, {{"y", "5x37xf32"}, {"z", "5x37xi64"}}, R"(
    %y = tcc.iota dim 1 -> tensor<5x37xf32>
    %z = tcc.iota dim 0 -> tensor<5x37xi64>)"});
  KernelText text{{{"x", "5x37xf32"}, {"seed", "i32"}}, {{"bits", "5x37xi32"}, {"y", "5x37xf32"}}, R"(
    %bits = tcc.random_bits %seed stream 3 : tensor<i32> -> tensor<5x37xi32>
    %half = tcc.constant dense<0> : tensor<5x37xi32>
    %keep = tcc.compare lt %bits, %half : tensor<5x37xi32> -> tensor<5x37xi1>
    %zero = tcc.constant dense<0.0> : tensor<5x37xf32>
    %y = tcc.select %keep, %x, %zero : tensor<5x37xi1>, tensor<5x37xf32>)"};
  expectLikeInterpreter(text, {floats({5, 37}, 1), integers({}, {1234})});
}

TEST(CpuIndexing, RandomBitsAreThoseOfTheElementsCoordinates) {
  KernelText flat{{{"seed", "i32"}, {"first", "i32"}}, {{"bits", "4x19x37xi32"}}, R"(
    %bits = tcc.random_bits %seed stream 3 first %first : tensor<i32> -> tensor<4x19x37xi32>)"};
  KernelText rows{{{"seed", "i64"}}, {{"most", "2x3x1xi32"}, {"bits", "2x3x40xi32"}}, R"(
    %bits = tcc.random_bits %seed stream 3 : tensor<i64> -> tensor<2x3x40xi32>
    %most = tcc.reduce_max %bits axes [2] : tensor<2x3x40xi32> -> tensor<2x3x1xi32>)"};
  static mlir::MLIRContext context;
  RefTensor seed{mlir::RankedTensorType::get({}, mlir::IntegerType::get(&context, 64)), {77 + 4294967296.0 * 3}};
  auto lastResult = [](const KernelText &text, const cpu::Target &target, const std::vector<RefTensor> &inputs) {
    LoadedKernel kernel(text, {.target = target});
    EXPECT_EQ(kernel.error, "");
    return kernel.run(inputs).back().data;
  };
  for (const cpu::Target &target : runnableTargets()) {
    EXPECT_EQ(lastResult(flat, target, {integers({}, {-5}), integers({}, {2})}),
              randomElements(0xfffffffb, 3, 4, 19, 37, 2));
    EXPECT_EQ(lastResult(rows, target, {seed}), randomElements((3ull << 32) + 77, 3, 2, 3, 40));
  }
}

} // namespace
