// Processor time that the emulator takes under each schedule that the tests use (the checked one looks at every
// access): a flash attention forward, B·H = 4, T = 256, d = 64; a softmax, a block of 256 threads for each of 64 rows
// of 256, whose time goes into reductions; the same beside 64 MiB that the launch does not touch.
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

const char *const softmaxText = R"(
KERNEL(softmax, 256, 1)(const float *RESTRICT in, float *RESTRICT out) {
  SHARED(float, scratch, 8);
  int i = block_x() * 256 + thread_x();
  float top = block_reduce_max(in[i], scratch);
  float power = fast_exp2(in[i] - top);
  out[i] = divide_f32(power, block_reduce_sum(power, scratch));
}
)";

void softmax(benchmark::State &state, const Schedule &schedule, std::size_t untouched) {
  constexpr int rows = 64;
  const Module module = Module::compile(softmaxText);
  DeviceBuffer in(rows * 1024, "in"), out(rows * 1024, "out"), beside(untouched, "beside");
  for (int i = 0; i < rows * 256; ++i)
    in.as<float>()[i] = static_cast<float>(i * 37 % 101) / 16.0f;
  for (auto _ : state) {
    const LaunchResult result = launch(module, "softmax", {rows}, {256}, 0, schedule, in.as<float>(), out.as<float>());
    if (!result.ok())
      state.SkipWithError(result.text().c_str());
    state.SetIterationTime(result.seconds);
  }
}

} // namespace

int main(int argc, char **argv) {
  int number = 0;
  for (const Schedule &schedule : testSchedules()) {
    const std::string name = "/schedule" + std::to_string(number++) + (schedule.checkAccesses ? "/checked" : "");
    const auto add = [](benchmark::internal::Benchmark *bench) {
      bench->UseManualTime()->Unit(benchmark::kMillisecond);
    };
    add(benchmark::RegisterBenchmark(("flash" + name).c_str(), flash, schedule));
    add(benchmark::RegisterBenchmark(("softmax" + name).c_str(), softmax, schedule, std::size_t{1024}));
    add(benchmark::RegisterBenchmark(("softmax_beside_64_MiB" + name).c_str(), softmax, schedule,
                                     std::size_t{64} << 20));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
