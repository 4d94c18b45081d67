// Which kernels share a function: those whose normalised forms are equal, whatever their ops, sizes and names were.
#include "codegen/kernel_table.h"
#include "ir/analyze_kernel.h"
#include "kernel_text.h"
#include "mlir/Parser/Parser.h"
#include "tests/dialects.h"
#include <gtest/gtest.h>

using namespace tcc;
using namespace tcc::test;

namespace {

class Table : public testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  KernelTable table;

  void SetUp() override { test::loadDialects(context); }

  KernelInfo form(const KernelText &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text.module(), mlir::ParserConfig(&context));
    std::optional<KernelInfo> info;
    std::string refusal = "the text does not parse";
    if (module)
      module->walk([&](KernelOp kernel) { info = analyzeKernel(kernel, refusal); });
    EXPECT_TRUE(info) << refusal << text.module();
    return info.value_or(KernelInfo());
  }
  unsigned add(const KernelText &text) { return table.add(form(text), {}); }

  /// y = x + p[row, 0] of x `rows` × `columns` and a p of 8 × `width`.
  static KernelText sliced(int rows, int columns, int row, int width) {
    std::string p = "8x" + std::to_string(width) + "xf32";
    std::string x = std::to_string(rows) + "x" + std::to_string(columns) + "xf32", place = std::to_string(row);
    return {{{"x", x}, {"p", p}},
            {{"y", x}},
            "%s = tcc.slice %p [" + place + ", 0] to [" + std::to_string(row + 1) + ", 1] : tensor<" + p +
                "> -> tensor<1x1xf32>\n%b = tcc.broadcast %s : tensor<1x1xf32> -> tensor<" + x +
                ">\n%y = tcc.add %x, %b : tensor<" + x + ">"};
  }
  static KernelText unary(const std::string &shape, const std::string &op) {
    return {{{"x", shape}}, {{"y", shape}}, "%y = tcc." + op + " %x : tensor<" + shape + ">"};
  }
  static KernelText scaled(const std::string &factor) {
    return {{{"x", "2x40xf32"}},
            {{"y", "2x40xf32"}},
            "%c = tcc.constant dense<" + factor + "> : tensor<2x40xf32>\n%y = tcc.mul %x, %c : tensor<2x40xf32>"};
  }
};

TEST_F(Table, segmentsOfEqualTailsShare) {
  unsigned first = add(unary("2x64xf32", "exp"));
  EXPECT_EQ(add(unary("4x64xf32", "exp")), first);
  EXPECT_EQ(add(unary("128xf32", "exp")), first);
  EXPECT_NE(add(unary("130xf32", "exp")), first); // another tail
  EXPECT_EQ(add(unary("130xf32", "exp")), add(unary("2x33xf32", "exp")));
  EXPECT_NE(add(unary("2x64xf32", "neg")), first);
  EXPECT_NE(add(unary("2x64xbf16", "exp")), first);
}

TEST_F(Table, anOffsetIsPartOfTheKernel) {
  unsigned first = add(sliced(2, 64, 3, 32)); // element 96
  EXPECT_NE(add(sliced(4, 64, 3, 48)), first);
  EXPECT_EQ(add(sliced(4, 64, 2, 48)), first); // element 96 too
  EXPECT_NE(add(sliced(2, 64, 0, 32)), first);
}

TEST_F(Table, literalsAndStreamsArePartOfTheKernel) {
  EXPECT_NE(add(scaled("0.0")), add(scaled("-0.0")));
  EXPECT_NE(add(scaled("0.5")), add(scaled("0.25")));
  EXPECT_EQ(add(scaled("0x7FC00000")), add(scaled("0x7FC00000"))); // NaN
  auto random = [](int stream) {
    return KernelText{{{"s", "i32"}},
                      {{"y", "96xi32"}},
                      "%y = tcc.random_bits %s stream " + std::to_string(stream) + " : tensor<i32> -> tensor<96xi32>"};
  };
  EXPECT_NE(add(random(1)), add(random(2)));
  EXPECT_EQ(add(random(1)), add(random(1)));
}

TEST_F(Table, otherKernelsShareTheirSizes) {
  auto sums = [](const std::string &rows) {
    return KernelText{{{"x", rows + "x5xf32"}},
                      {{"y", rows + "x1xf32"}},
                      "%y = tcc.reduce_sum %x axes [1] : tensor<" + rows + "x5xf32> -> tensor<" + rows + "x1xf32>"};
  };
  EXPECT_NE(add(sums("3")), add(sums("4")));
  EXPECT_EQ(add(sums("3")), add(sums("3")));
}

TEST_F(Table, whatIsEmittedIsWhatWasCompared) {
  KernelInfo large = form(sliced(6, 64, 3, 32));
  table.add(large, {});
  const KernelInfo &emitted = std::get<FormKernel>(table.sources().front()).form;
  EXPECT_EQ(emitted, normalized(form(sliced(2, 64, 3, 32))));
  EXPECT_EQ(emitted.space.columns, KernelInfo::segmentSizes);
  EXPECT_EQ(emitted.arguments[0].elements, KernelInfo::segmentSizes);
  EXPECT_EQ(emitted.arguments[1].elements, 97); // up to the one that is read
  EXPECT_EQ(normalized(emitted), emitted);
  for (unsigned argument : {0, 1})
    EXPECT_EQ(mayShareBuffer(emitted, 0, argument), mayShareBuffer(large, 0, argument));
}

TEST_F(Table, kernelsWrittenByATargetAreToldApartByTheirSymbols) {
  EXPECT_EQ(add(KernelText{{{"x", "3xf32"}}, {{"y", "3xf32"}}, "%y = tcc.neg %x : tensor<3xf32>"}), 0u);
  EXPECT_EQ(table.add({"forward_d64", "text of 64"}), 1u);
  EXPECT_EQ(table.add({"forward_d128", "text of 128"}), 2u);
  EXPECT_EQ(table.add({"forward_d64", "text of 64"}), 1u);
  EXPECT_EQ(std::get<TextKernel>(table.sources()[2]).text, "text of 128");
  EXPECT_EQ(table.sources().size(), 3u);
}

} // namespace
