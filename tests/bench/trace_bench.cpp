// What a call costs before it runs when nothing changed: a GPT-2 training step is traced again, compared with the last
// record op by op, and found in the cache; a frozen function only looks at its arguments' types. `ops` are those of the
// step, `per_op` the seconds for each.
//   trace_bench
#include "models/gpt2_config.h"
#include "tests/models/training_step.h"
#include <benchmark/benchmark.h>

namespace {

using namespace tcc;

/// Looks a `char` step of one row of 16 tokens up, which has as many ops as one of any batch.
void lookUp(benchmark::State &state, bool frozen) {
  models::Model model(*models::gpt2Preset("char"));
  optim::Adamw optimizer(model.parameters(), {});
  FunctionOptions options;
  options.inputs = {"tokens", "targets", "lr", "step"};
  options.frozen = frozen;
  Function step = test::compiledTrainingStep(model, optimizer, options);
  std::vector<int32_t> text(16, 7);
  Array tokens = Array::of(text, {1, 16});
  std::vector<Array> inputs = {tokens, tokens, Array(1e-3f), Array(1.f)};
  step.prepare(inputs); // compiles
  const double ops = static_cast<double>(step.lastCompile().capturedOps);
  for (auto _ : state)
    step.prepare(inputs);
  state.counters["ops"] = ops;
  state.counters["per_op"] =
      benchmark::Counter(ops, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

} // namespace

BENCHMARK_CAPTURE(lookUp, unchanged, false);
BENCHMARK_CAPTURE(lookUp, frozen, true);
BENCHMARK_MAIN();
