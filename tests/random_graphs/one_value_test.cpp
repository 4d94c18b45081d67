// One value has one set of bits: wherever a compiled program stores an elementwise value, it is what its op makes of
// the stored operands, though fused kernels compute the operands again, in lanes, scalars and masked tails, next to
// other ops. A random training step returns what matmuls and reductions give and a random half of its elementwise
// values; between these the elementwise ops are compiled again at -O0, one kernel an op, and run on the stored values.
// TCC_RANDOM_GRAPHS sets how many steps (30), TCC_RANDOM_SEED the first seed.
#include "ir/reference/compare.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "tests/environment.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/dice.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include "llvm/Support/Format.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// Ops whose results follow element by element from their operands: arithmetic, views and literals.
bool isRepeatable(Operation *op) {
  return isa<ElementwiseOpInterface>(op) || op->hasTrait<ViewOp>() || op->getNumOperands() == 0;
}

/// The training step in primitives, forward and backward.
OwningOpRef<ModuleOp> jointStep(MLIRContext &context, uint64_t seed) {
  GenerateOptions shape;
  shape.ops = 4 + static_cast<int>(seed % 13);
  shape.bf16 = seed % 3 == 0;
  shape.states = false;
  shape.sums = seed % 4 == 2;
  OwningOpRef<ModuleOp> module = generateGraph(context, seed, shape);
  PipelineOptions options;
  options.stopAfter = Phase::joint;
  PipelineReport report;
  return module && succeeded(runPipeline(*module, options, report)) ? std::move(module) : nullptr;
}

/// The step with other results: every value that elementwise ops cannot repeat, and about half of those that they can.
SmallVector<Value> returnValues(func::FuncOp function, uint64_t seed) {
  Dice dice(seed);
  SmallVector<Value> stored;
  for (Operation &op : function.getBody().front().without_terminator())
    for (Value result : op.getResults())
      if (!isRepeatable(&op) || (isa<ElementwiseOpInterface>(op) && dice.chance(50)))
        stored.push_back(result);
  Operation *terminator = function.getBody().front().getTerminator();
  terminator->setOperands(stored);
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(), TypeRange(ValueRange(stored))));
  function.removeResAttrsAttr();
  return stored;
}

/// The elementwise ops of `function`, as a function of its arguments and of the `stored` values: its results are the
/// stored values that elementwise ops make, their numbers in `stored` in `which`.
OwningOpRef<ModuleOp> betweenStoredValues(func::FuncOp function, ArrayRef<Value> stored, SmallVector<unsigned> &which) {
  OpBuilder builder(function.getContext());
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module(ModuleOp::create(loc));
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types(function.getArgumentTypes());
  llvm::append_range(types, TypeRange(ValueRange(stored)));
  auto parts = func::FuncOp::create(builder, loc, "main", builder.getFunctionType(types, {}));
  Block *block = parts.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping map;
  for (BlockArgument argument : function.getArguments())
    map.map(argument, block->getArgument(argument.getArgNumber()));
  llvm::DenseMap<Value, unsigned> numbers;
  for (auto [i, value] : llvm::enumerate(stored))
    numbers[value] = static_cast<unsigned>(i);
  SmallVector<Value> results;
  for (Operation &op : function.getBody().front().without_terminator()) {
    Operation *copy = isRepeatable(&op) ? builder.clone(op, map) : nullptr;
    for (OpResult result : op.getResults()) {
      auto number = numbers.find(result);
      if (number == numbers.end())
        continue;
      if (copy) {
        results.push_back(copy->getResult(result.getResultNumber()));
        which.push_back(number->second);
      }
      map.map(result, block->getArgument(function.getNumArguments() + number->second));
    }
  }
  func::ReturnOp::create(builder, loc, results);
  parts.setFunctionType(builder.getFunctionType(types, TypeRange(ValueRange(results))));
  return module;
}

/// The first stored value that is not what its ops make of the values stored before it, in words; empty where there is
/// none. `compared` counts elements.
std::string findDifference(ModuleOp step, uint64_t seed, const CheckOptions &options, int64_t &compared,
                           std::string &error) {
  OwningOpRef<ModuleOp> whole(cast<ModuleOp>(step->clone()));
  func::FuncOp function = onlyFunction(*whole);
  SmallVector<Value> stored = returnValues(function, seed);
  SmallVector<unsigned> which;
  OwningOpRef<ModuleOp> parts = betweenStoredValues(function, stored, which);
  if (failed(verify(*whole)) || failed(verify(*parts))) {
    error = "an invalid graph";
    return {};
  }
  std::vector<RefTensor> arguments = generateInputs(function, seed);
  CheckOptions apart = options;
  apart.level = 0;
  auto compiled = CompiledGraph::compile(*whole, options, error);
  auto values = compiled ? compiled->run(arguments, error) : std::nullopt;
  if (!values)
    return {};
  llvm::append_range(arguments, *values);
  auto compiledParts = CompiledGraph::compile(*parts, apart, error);
  auto repeated = compiledParts ? compiledParts->run(arguments, error) : std::nullopt;
  if (!repeated)
    return {};
  for (auto [number, again] : llvm::zip_equal(which, *repeated)) {
    const RefTensor &first = (*values)[number];
    compared += first.size();
    if (sameElements(first, again))
      continue;
    const auto [inProgram, byOps] = std::ranges::mismatch(first.data, again.data);
    std::string text;
    llvm::raw_string_ostream(text) << "element " << inProgram - first.data.begin() << " of " << stored[number] << ": "
                                   << llvm::format("%.17g", *inProgram) << " in the program, "
                                   << llvm::format("%.17g", *byOps) << " by its ops";
    return text;
  }
  return {};
}

/// The instruction set and level that a seed asks for.
CheckOptions optionsOf(uint64_t seed) {
  const std::vector<cpu::Target> targets = cpuTargets();
  CheckOptions options;
  options.target = targets[seed % targets.size()];
  options.level = 1 + static_cast<int>(seed / 2 % 3);
  options.threads = 1 + static_cast<int>(seed % 2);
  return options;
}

TEST(OneValue, hasTheSameBitsWhereverItIsComputed) {
  const int64_t count = fromEnvironment("TCC_RANDOM_GRAPHS", 30), first = fromEnvironment("TCC_RANDOM_SEED", 1);
  auto context = makeContext();
  int64_t compared = 0, failures = 0;
  for (int64_t seed = first; seed < first + count && failures < 5; ++seed) {
    OwningOpRef<ModuleOp> step = jointStep(*context, seed);
    ASSERT_TRUE(step) << "seed " << seed;
    const CheckOptions options = optionsOf(seed);
    std::string error;
    const std::string difference = findDifference(*step, seed, options, compared, error);
    ASSERT_EQ(error, "") << "seed " << seed << "\n" << textOf(*step);
    if (difference.empty())
      continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ", " << options.target.cpu << ", -O" << options.level << ": " << difference
                  << "\n"
                  << textOf(*step);
  }
  std::cout << compared << " elements compared\n";
  EXPECT_GE(compared, count * 1000) << "the generator stores too little";
}

} // namespace
} // namespace tcc::test
