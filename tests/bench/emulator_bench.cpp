// Processor time that the emulator takes for a flash attention forward, B·H = 4, T = 256, d = 64, under each schedule
// that the tests use; the checked one looks at every access.
//   emulator_bench
#include "tests/cuda_emulator/samples.h"
#include <benchmark/benchmark.h>

namespace {

using namespace tcc::emulator;

void flash(benchmark::State &state, const Schedule &schedule) {
  const Module module = Module::compile(kernelText("flash.cu"));
  for (auto _ : state) {
    const SampleRun run = runFlash(module, schedule, 256, 4);
    if (!run.result.ok())
      state.SkipWithError(run.result.text().c_str());
    state.SetIterationTime(run.result.seconds);
  }
}

} // namespace

int main(int argc, char **argv) {
  int number = 0;
  for (const Schedule &schedule : testSchedules())
    benchmark::RegisterBenchmark(
        ("flash/schedule" + std::to_string(number++) + (schedule.checkAccesses ? "/checked" : "")).c_str(), flash,
        schedule)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
