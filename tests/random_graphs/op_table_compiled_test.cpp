// Every row of the op table, compiled at -O0 and at -O2, against the interpreter. Cases of a row share a module, so
// that they share the cost of a compilation; a module that fails is looked at case by case.
#include "tests/ops/op_table.h"
#include "tests/random_graphs/graph_check.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr size_t casesPerModule = 24;

struct Sample {
  const OpCase *opCase;
  OwningOpRef<ModuleOp> module;
  std::vector<RefTensor> inputs;
};

std::string checkSample(Sample &sample, ArrayRef<RefTensor> results) {
  auto reference = Reference::make(*sample.module, sample.inputs);
  return reference ? reference->check(results, sample.opCase->tolerance) : reference.error().message();
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

class OpTableRow : public testing::TestWithParam<size_t> {};

TEST_P(OpTableRow, equalsTheInterpreter) {
  const OpRow &row = opTable()[GetParam()];
  auto context = makeContext();
  std::vector<Sample> samples;
  for (const OpCase &opCase : row.cases) {
    std::string messages;
    Sample sample{&opCase, parseText(*context, opCase.text, messages), {}};
    ASSERT_TRUE(sample.module) << messages;
    sample.inputs = makeInputs(mainOf(*sample.module), opCase, 3);
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

INSTANTIATE_TEST_SUITE_P(Rows, OpTableRow, testing::Range<size_t>(0, opTable().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return StringRef(opTable()[info.param].op).drop_front(4).str();
                         });

} // namespace
} // namespace tcc::test
