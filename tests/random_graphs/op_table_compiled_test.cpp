// Every row of the op table, compiled at -O0 and at -O2, against the interpreter. Cases of a row share a module, so
// that they share the cost of a compilation; a module that fails is looked at case by case.
#include "tests/ops/op_table.h"
#include "tests/random_graphs/graph_check.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr size_t casesPerModule = 24;

/// What the compiler refuses for a stated reason: such a case must fail with exactly this in its message. Cases in f8
/// are in no row: no emitter and no library holds that type yet.
struct Refusal {
  const char *op, *element, *reason;
};
const Refusal refusals[] = {
    {"tcc.matmul", "f16", "f32 gives f32, bf16 gives bf16 or f32"}, // oneDNN 2.6 has no f16 products on CPUs
    {"tcc.attention", "f16", "f32 gives f32, bf16 gives bf16 or f32"},
};

const Refusal *refusalOf(StringRef op, const OpCase &opCase) {
  for (const Refusal &refusal : refusals)
    if (op == refusal.op && StringRef(opCase.text).contains(std::string("x") + refusal.element + ">"))
      return &refusal;
  return nullptr;
}

struct Sample {
  const OpCase *opCase;
  OwningOpRef<ModuleOp> module;
  std::vector<RefTensor> inputs;
};

std::string checkSample(Sample &sample, ArrayRef<RefTensor> results) {
  std::string error;
  std::unique_ptr<Reference> reference = Reference::make(*sample.module, sample.inputs, error);
  return reference ? reference->check(results, sample.opCase->tolerance) : error;
}

/// The results of all samples in order, or nothing and what went wrong.
std::optional<std::vector<RefTensor>> runTogether(ArrayRef<Sample *> samples, int level, std::string &error) {
  SmallVector<ModuleOp> modules;
  std::vector<RefTensor> inputs;
  for (Sample *sample : samples) {
    modules.push_back(*sample->module);
    inputs.insert(inputs.end(), sample->inputs.begin(), sample->inputs.end());
  }
  OwningOpRef<ModuleOp> joined = joinModules(modules);
  CheckOptions options;
  options.level = level;
  std::unique_ptr<CompiledGraph> graph = CompiledGraph::compile(*joined, options, error);
  return graph ? graph->run(inputs, error) : std::nullopt;
}

void checkTogether(ArrayRef<Sample *> samples, int level) {
  std::string error;
  std::optional<std::vector<RefTensor>> results = runTogether(samples, level, error);
  if (!results) {
    for (Sample *sample : samples) {
      error.clear();
      std::optional<std::vector<RefTensor>> own = runTogether(sample, level, error);
      if (own)
        error = checkSample(*sample, *own);
      EXPECT_EQ(error, "") << "-O" << level << ", " << sample->opCase->name << "\n" << sample->opCase->text;
    }
    return;
  }
  size_t next = 0;
  for (Sample *sample : samples) {
    size_t count = onlyFunction(*sample->module).getNumResults();
    error = checkSample(*sample, ArrayRef(*results).slice(next, count));
    EXPECT_EQ(error, "") << "-O" << level << ", " << sample->opCase->name << "\n" << sample->opCase->text;
    next += count;
  }
}

/// The product library has no f16 products: compileModule refuses them, see halfProductsAreRefused.
bool isHalfProduct(const OpRow &row, const OpCase &opCase) {
  StringRef op(row.op);
  return (op == "tcc.matmul" || op == "tcc.linear" || op.contains("attention")) &&
         StringRef(opCase.text).contains("xf16>");
}

class OpTableRow : public testing::TestWithParam<size_t> {};

TEST_P(OpTableRow, equalsTheInterpreter) {
  const OpRow &row = opTable()[GetParam()];
  auto context = makeContext();
  std::vector<Sample> samples;
  for (const OpCase &opCase : row.cases) {
    if (isHalfProduct(row, opCase))
      continue;
    std::string messages;
    Sample sample{&opCase, parseText(*context, opCase.text, messages), {}};
    ASSERT_TRUE(sample.module) << messages;
    sample.inputs = makeInputs(mainOf(*sample.module), opCase, 3);
    if (const Refusal *refusal = refusalOf(row.op, opCase)) {
      std::string error;
      EXPECT_FALSE(compileGraph(*sample.module, {}, error)) << opCase.name << " compiles: take it out of the list";
      EXPECT_NE(error.find(refusal->reason), std::string::npos) << opCase.name << ": " << error;
      continue;
    }
    samples.push_back(std::move(sample));
  }
  for (int level : {0, 2})
    for (size_t first = 0; first < samples.size(); first += casesPerModule) {
      SmallVector<Sample *> some;
      for (size_t i = first; i < std::min(first + casesPerModule, samples.size()); ++i)
        some.push_back(&samples[i]);
      checkTogether(some, level);
    }
}

TEST(OpTableCompiled, halfProductsAreRefused) {
  auto context = makeContext();
  std::string messages, error;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(
func.func @main(%a: tensor<4x8xf16>, %b: tensor<8x4xf16>) -> (tensor<4x4xf16>) {
  %r = tcc.matmul %a, %b : tensor<4x8xf16>, tensor<8x4xf16> -> tensor<4x4xf16>
  return %r : tensor<4x4xf16>
})",
                                           messages);
  ASSERT_TRUE(module) << messages;
  EXPECT_FALSE(CompiledGraph::compile(*module, CheckOptions(), error));
  EXPECT_NE(error.find("multiplies f16; the CPU's products are of f32 and bf16"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Rows, OpTableRow, testing::Range<size_t>(0, opTable().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return StringRef(opTable()[info.param].op).drop_front(4).str();
                         });

} // namespace
} // namespace tcc::test
