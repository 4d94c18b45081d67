// Kernels of each shape, written by hand: what each is launched as, and what it gives.
#include "mlir/Parser/Parser.h"
#include "tests/codegen/kernel_text.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

struct Sample {
  const char *name;
  cuda::KernelShape shape;
  int vector; // columns of a group
  KernelText text;
};

std::string unary(const std::string &op, const std::string &shape) {
  return "%r = tcc." + op + " %x : tensor<" + shape + ">";
}

/// x * sum of its rows, and the column sums of that: one row reduction, then a column result.
KernelText rowsThenColumns(const std::string &outer, const std::string &rows, const std::string &columns,
                           const std::string &type = "f32") {
  std::string x = outer + "x" + rows + "x" + columns + "x" + type, row = outer + "x" + rows + "x1x" + type;
  std::string sums = outer + "x1x" + columns + "x" + type;
  return {{{"x", x}},
          {{"r", sums}},
          "%s = tcc.reduce_sum %x axes [2] : tensor<" + x + "> -> tensor<" + row +
              ">\n%b = tcc.broadcast %s : tensor<" + row + "> -> tensor<" + x + ">\n%m = tcc.mul %x, %b : tensor<" + x +
              ">\n%r = tcc.reduce_sum %m axes [1] : tensor<" + x + "> -> tensor<" + sums + ">"};
}
KernelText columnResult(const std::string &op, const std::string &x, const std::string &r) {
  return {{{"x", x}}, {{"r", r}}, "%r = tcc." + op + " %x axes [1] : tensor<" + x + "> -> tensor<" + r + ">"};
}
KernelText softmax(const std::string &rows, const std::string &columns) {
  std::string x = rows + "x" + columns + "xf32", row = rows + "x1xf32";
  auto reduced = [&](const std::string &name, const std::string &op, const std::string &of) {
    return "%" + name + "r = tcc." + op + " %" + of + " axes [1] : tensor<" + x + "> -> tensor<" + row + ">\n%" + name +
           " = tcc.broadcast %" + name + "r : tensor<" + row + "> -> tensor<" + x + ">\n";
  };
  return {{{"x", x}},
          {{"r", x}},
          reduced("m", "reduce_max", "x") + "%d = tcc.sub %x, %m : tensor<" + x + ">\n%e = tcc.exp %d : tensor<" + x +
              ">\n" + reduced("s", "reduce_sum", "e") + "%r = tcc.div %e, %s : tensor<" + x + ">"};
}
KernelText gather(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string table = rows + "x" + columns + "x" + type, r = "7x" + columns + "x" + type;
  return {{{"t", table}, {"i", "7xi32"}},
          {{"r", r}},
          "%r = tcc.gather %t at %i : tensor<" + table + ">, tensor<7xi32> -> tensor<" + r + ">"};
}
KernelText scatter(const std::string &rows, const std::string &columns, const std::string &many,
                   const std::string &type = "f32") {
  std::string table = rows + "x" + columns + "x" + type, x = many + "x" + columns + "x" + type;
  return {{{"t", table}, {"i", many + "xi64"}, {"x", x}},
          {{"r", table}},
          "%r = tcc.scatter_add %t at %i, %x : tensor<" + table + ">, tensor<" + many + "xi64>, tensor<" + x + ">"};
}

std::vector<Sample> elementwiseSamples() {
  using cuda::KernelShape;
  auto broadcast = [](const std::string &x, const std::string &y) {
    return KernelText{{{"x", x}, {"y", y}},
                      {{"r", x}},
                      "%b = tcc.broadcast %y : tensor<" + y + "> -> tensor<" + x + ">\n%r = tcc.add %x, %b : tensor<" +
                          x + ">"};
  };
  auto transposed = [](const std::string &x, const std::string &r) {
    return KernelText{{{"x", x}},
                      {{"r", r}},
                      "%t = tcc.transpose %x [1, 0] : tensor<" + x + "> -> tensor<" + r +
                          ">\n%r = tcc.neg %t : tensor<" + r + ">"};
  };
  return {
      {"elements", KernelShape::elements, 1, broadcast("5x7xf32", "7xf32")},
      {"groups of 4", KernelShape::elements, 4, broadcast("5x12xf32", "12xf32")},
      {"groups of 8", KernelShape::elements, 8, broadcast("5x24xbf16", "24xbf16")},
      {"groups of 4 of f16", KernelShape::elements, 4, broadcast("5x12xf16", "12xf16")},
      {"groups of i64", KernelShape::elements, 4, broadcast("5x12xi64", "12xi64")},
      {"groups of two types",
       KernelShape::elements,
       8,
       {{{"x", "5x16xbf16"}, {"y", "16xf32"}},
        {{"r", "5x16xf32"}, {"m", "5x16xi1"}},
        "%c = tcc.cast %x : tensor<5x16xbf16> -> tensor<5x16xf32>\n"
        "%b = tcc.broadcast %y : tensor<16xf32> -> tensor<5x16xf32>\n%r = tcc.add %c, %b : tensor<5x16xf32>\n"
        "%m = tcc.compare lt %c, %b : tensor<5x16xf32> -> tensor<5x16xi1>"}},
      {"transposed", KernelShape::elements, 1, transposed("5x33xbf16", "33x5xbf16")},
      {"transposed into groups", KernelShape::elements, 4, transposed("12x10xf32", "10x12xf32")},
      {"misaligned",
       KernelShape::elements,
       4,
       {{{"x", "5x9xf32"}},
        {{"r", "5x8xf32"}},
        "%s = tcc.slice %x [0, 1] to [5, 9] : tensor<5x9xf32> -> tensor<5x8xf32>\n%r = tcc.exp %s : tensor<5x8xf32>"}},
      {"segments",
       KernelShape::segments,
       4,
       {{{"x", "2x1500xf32"}, {"s", "f32"}},
        {{"r", "2x1500xf32"}},
        "%b = tcc.broadcast %s : tensor<f32> -> tensor<2x1500xf32>\n%r = tcc.mul %x, %b : tensor<2x1500xf32>"}},
      {"segments that end within a group",
       KernelShape::segments,
       4,
       {{{"x", "4099xf32"}}, {{"r", "4099xf32"}}, unary("neg", "4099xf32")}},
      {"segments of 16 bits",
       KernelShape::segments,
       8,
       {{{"x", "141xbf16"}}, {{"r", "141xbf16"}}, unary("neg", "141xbf16")}},
      {"segments of whole blocks",
       KernelShape::segments,
       8,
       {{{"x", "5003xbf16"}}, {{"r", "5003xbf16"}}, unary("neg", "5003xbf16")}},
      {"segments of truth values",
       KernelShape::segments,
       4,
       {{{"x", "133xi1"}}, {{"r", "133xi1"}}, unary("not", "133xi1")}},
      {"gather", KernelShape::elements, 4, gather("6", "20", "f32")},
      {"gather of single columns", KernelShape::elements, 1, gather("6", "21", "f32")},
      {"gather of 16 bits", KernelShape::elements, 8, gather("6", "24", "bf16")},
      {"random",
       KernelShape::elements,
       1,
       {{{"s", "i32"}}, {{"r", "5x9xi32"}}, "%r = tcc.random_bits %s stream 3 : tensor<i32> -> tensor<5x9xi32>"}},
      {"random of a part",
       KernelShape::elements,
       1,
       {{{"s", "i64"}, {"f", "i32"}},
        {{"r", "2x2x9x19xi32"}},
        "%r = tcc.random_bits %s stream 3 first %f : tensor<i64> -> tensor<2x2x9x19xi32>"}},
      {"pad",
       KernelShape::elements,
       1,
       {{{"x", "4x5xf32"}}, {{"r", "7x9xf32"}}, "%r = tcc.pad %x [1, 2], [2, 2] : tensor<4x5xf32> -> tensor<7x9xf32>"}},
      {"pad of rows",
       KernelShape::elements,
       4,
       {{{"x", "4x8xf32"}}, {{"r", "7x8xf32"}}, "%r = tcc.pad %x [1, 0], [2, 0] : tensor<4x8xf32> -> tensor<7x8xf32>"}},
  };
}

std::vector<Sample> reductionSamples() {
  using cuda::KernelShape;
  KernelText sumAndScale = {{{"x", "3x700xbf16"}},
                            {{"r", "3x1xbf16"}, {"y", "3x700xbf16"}},
                            "%r = tcc.reduce_sum %x axes [1] : tensor<3x700xbf16> -> tensor<3x1xbf16>\n"
                            "%b = tcc.broadcast %r : tensor<3x1xbf16> -> tensor<3x700xbf16>\n"
                            "%y = tcc.mul %x, %b : tensor<3x700xbf16>"};
  return {
      {"warp rows", KernelShape::warpRows, 4, softmax("9", "80")},
      {"warp rows of single columns", KernelShape::warpRows, 1, softmax("9", "81")},
      {"long warp rows", KernelShape::warpRows, 4, sumAndScale},
      {"block rows of single columns", KernelShape::blockRows, 1, softmax("3", "701")},
      {"block rows", KernelShape::blockRows, 4, softmax("2", "1500")},
      {"streamed rows", KernelShape::blockRows, 4, softmax("2", "40000")},
      {"copied rows", KernelShape::blockRows, 4, softmax("2", "20004")},
      {"long rows", KernelShape::blockRows, 4, columnResult("reduce_max", "2x20000xf32", "2x1xf32")},
      {"long rows of single columns", KernelShape::blockRows, 1, columnResult("reduce_sum", "2x20003xf32", "2x1xf32")},
      {"columns", KernelShape::columns, 1, columnResult("reduce_sum", "3x11x37xbf16", "3x1x37xbf16")},
      {"columns of few rows", KernelShape::columns, 4, columnResult("reduce_sum", "40x3x160xf32", "40x1x160xf32")},
      {"columns of i64", KernelShape::columns, 1, columnResult("reduce_sum", "2x19x36xi64", "2x1x36xi64")},
      {"maxima of columns", KernelShape::columns, 8, columnResult("reduce_max", "64x9x40xbf16", "64x1x40xbf16")},
      {"warp columns", KernelShape::warpColumns, 4, rowsThenColumns("2", "21", "300")},
      {"warp columns of 16 bits", KernelShape::warpColumns, 8, rowsThenColumns("2", "21", "304", "bf16")},
      {"warp columns of single ones", KernelShape::warpColumns, 1, rowsThenColumns("2", "5", "301")},
      {"block columns", KernelShape::blockColumns, 4, rowsThenColumns("2", "5", "1500")},
      {"scatter", KernelShape::scatter, 1, scatter("6", "20", "9")},
      {"scatter into tiles", KernelShape::scatter, 1, scatter("70", "300", "600")},
      {"scatter of many rows", KernelShape::scatter, 1, scatter("70", "20", "4500")},
      {"scatter of 16 bits", KernelShape::scatter, 1, scatter("6", "20", "9", "bf16")},
      {"scatter of f16", KernelShape::scatter, 1, scatter("40", "7", "300", "f16")},
  };
}

const std::vector<Sample> &samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> both = elementwiseSamples();
    for (Sample &sample : reductionSamples())
      both.push_back(std::move(sample));
    return both;
  }();
  return all;
}

std::unique_ptr<EmulatedKernel> parsed(MLIRContext &context, const Sample &sample) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(context, sample.text.module(), messages);
  EXPECT_TRUE(module) << sample.name << ": " << messages << sample.text.module();
  if (!module)
    return nullptr;
  std::vector<EmulatedKernel> kernels = kernelsOf(*module, "sample", 7);
  EXPECT_EQ(kernels.size(), 1u) << sample.name;
  return kernels.empty() ? nullptr : std::make_unique<EmulatedKernel>(std::move(kernels.front()));
}

TEST(CudaKernels, eachFormHasItsShape) {
  auto context = makeContext();
  for (const Sample &sample : samples()) {
    std::unique_ptr<EmulatedKernel> kernel = parsed(*context, sample);
    ASSERT_TRUE(kernel) << sample.name;
    cuda::KernelDivision division = cuda::divide(normalized(kernel->source.form));
    EXPECT_EQ(static_cast<int>(division.shape), static_cast<int>(sample.shape)) << sample.name;
    EXPECT_EQ(division.vector, sample.vector) << sample.name;
  }
}

TEST(CudaKernels, eachShapeEqualsTheInterpreter) {
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  for (const Sample &sample : samples())
    if (std::unique_ptr<EmulatedKernel> kernel = parsed(*context, sample)) {
      kernel->source.symbol += "_" + std::to_string(kernels.size());
      kernel->source.joined = true;
      kernels.push_back(std::move(*kernel));
    }
  checkKernels(kernels, emulator::testSchedules());
}

/// The kernel of the sample of that name, to be called `symbol`.
std::unique_ptr<EmulatedKernel> sampleCalled(MLIRContext &context, const std::string &name) {
  for (const Sample &sample : samples())
    if (sample.name == name)
      return parsed(context, sample);
  ADD_FAILURE() << "no sample '" << name << "'";
  return nullptr;
}

// What a scatter-add leaves where no row hits is what was there, so the result may lie over the base.
TEST(CudaKernels, aScatterAddOverItsBaseGivesTheSameBits) {
  auto context = makeContext();
  auto kernel = sampleCalled(*context, "scatter into tiles");
  ASSERT_TRUE(kernel);
  ASSERT_TRUE(mayShareBuffer(kernel->source.form, 0, 0));
  emulator::Module module = emulator::Module::compile(cuda::kernelText(kernel->source));
  for (const emulator::Schedule &schedule : emulator::testSchedules()) {
    std::string findings;
    std::vector<RefTensor> apart = runEmulated(module, *kernel, schedule, findings);
    EXPECT_EQ(findings, "");
    std::vector<RefTensor> over = runEmulated(module, *kernel, schedule, findings, /*over=*/0);
    EXPECT_EQ(findings, "");
    EXPECT_TRUE(sameBits(apart, over));
  }
}

struct Fault {
  const char *name, *sample, *was, *is;
};

// Faults in the text that the emitter might write: each is found by the emulator, or changes what comes out.
TEST(CudaKernels, plantedFaultsAreCaught) {
  const Fault faults[] = {
      {"a wrong end of a segment", "segments that end within a group", "columns - group", "columns"},
      {"a group that starts within one", "groups of 4", "* 4;", "* 4 + 1;"},
      {"a missing barrier in front of totals", "warp columns", "block_barrier();", ""},
      {"a missing barrier after the search", "scatter into tiles",
       "hits[before] = next + thread_x();\n        block_barrier();", "hits[before] = next + thread_x();"},
      {"batches whose hits share one place", "scatter of many rows", "turn ^= 8;", ""},
      {"a batch that is passed over", "scatter of many rows", "batch < 8;", "batch < 7;"},
      {"a row that nobody waits for", "copied rows", "copy_async_wait<0>();", ""},
      {"a row that nobody waits for", "warp columns", "copy_async_wait<1>();", "copy_async_wait<2>();"},
      {"a copy over the row that is read", "warp columns", "(half ^ 1)", "half"},
      {"a row that is never followed by the next", "warp columns of 16 bits", "half ^= 1;", ""},
      {"a group that is loaded for another", "segments of whole blocks", "_at[k];", "_at[0];"},
      {"hits in another order", "scatter into tiles", "(1u << lane_index()) - 1u", "0u - (2u << lane_index())"},
      {"a tile that is too small", "scatter into tiles", "/ 2 * 32;", "/ 2 * 33;"},
      {"a shuffle of the lanes that have a column", "columns", "[warp *", "[warp_index() *"},
      {"a shuffle of the lanes that have a column", "warp columns", "[warp *", "[warp_index() *"},
      {"warps that skip rows", "maxima of columns", "r += 8", "r += 9"},
      {"a lane that is left out", "warp rows", "lane < 4", "lane < 3"},
      {"an entry that is too short", "segments", "segment * 5ll", "segment * 4ll"},
      {"a block that looks at the wrong entry", "columns", "block_y() *", "block_x() *"},
  };
  auto context = makeContext();
  for (const Fault &fault : faults) {
    SCOPED_TRACE(fault.name);
    auto kernel = sampleCalled(*context, fault.sample);
    ASSERT_TRUE(kernel);
    kernel->source.joined = true;
    std::string sound = cuda::kernelText(kernel->source), text = sound;
    for (size_t at = text.find(fault.was); at != std::string::npos;
         at = text.find(fault.was, at + std::string_view(fault.is).size()))
      text.replace(at, std::string_view(fault.was).size(), fault.is);
    ASSERT_NE(text, sound) << text;
    emulator::Module right = emulator::Module::compile(sound), wrong = emulator::Module::compile(text);
    bool caught = false;
    for (const emulator::Schedule &schedule : dailySchedules()) {
      std::string none, findings, more;
      std::vector<RefTensor> expected = runEmulated(right, *kernel, schedule, none);
      caught |= !sameBits(expected, runEmulated(wrong, *kernel, schedule, findings)) || !findings.empty();
      for (const std::vector<RefTensor> &joined : runJoined(wrong, *kernel, 3, schedule, more))
        caught |= !sameBits(expected, joined) || !more.empty();
      EXPECT_EQ(none, "");
    }
    EXPECT_TRUE(caught) << text;
  }
}

// A result may lie over an operand, so no load of it may take the path that never sees what a launch writes.
TEST(CudaKernels, aReadOnlyLoadOfASharedBufferIsFound) {
  auto context = makeContext();
  auto kernel = sampleCalled(*context, "segments");
  ASSERT_TRUE(kernel);
  ASSERT_TRUE(mayShareBuffer(kernel->source.form, 0, 0));
  std::string sound = cuda::kernelText(kernel->source), text = sound, load = "load_columns(in0 + (c)";
  size_t at = text.find(load);
  ASSERT_NE(at, std::string::npos) << text;
  text.insert(at, "load_16_streaming(in0 + (c));\n");
  emulator::Module right = emulator::Module::compile(sound), wrong = emulator::Module::compile(text);
  const emulator::Schedule checked = dailySchedules().front();
  ASSERT_TRUE(checked.checkAccesses);
  std::string none, findings;
  runEmulated(right, *kernel, checked, none, /*over=*/0);
  runEmulated(wrong, *kernel, checked, none);
  EXPECT_EQ(none, "");
  runEmulated(wrong, *kernel, checked, findings, /*over=*/0);
  EXPECT_NE(findings.find("after a read-only load in one launch"), std::string::npos) << findings;
}

} // namespace
} // namespace tcc::test
