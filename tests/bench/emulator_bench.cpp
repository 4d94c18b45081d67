// Processor time that the emulator takes under each schedule that the tests use (the checked one looks at every
// access): a flash attention forward, B·H = 4, T = 256, d = 64; a softmax, a block of 256 threads for each of 64 rows
// of 256, whose time goes into reductions; the same beside 64 MiB that the launch does not touch.
//   emulator_bench
#include "tests/cuda_emulator/samples.h"
#include <benchmark/benchmark.h>

namespace {

using namespace tcc::emulator;

void flash(benchmark::State &state, const Schedule &schedule, const CompileOptions &options) {
  const Module module = Module::compile(kernelText("flash.cu"), options);
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

void softmax(benchmark::State &state, const Schedule &schedule, const CompileOptions &options, std::size_t untouched) {
  constexpr int rows = 64;
  const Module module = Module::compile(softmaxText, options);
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

const char *const gatedText = R"(
KERNEL(gated, 256, 1)(const float *RESTRICT in, const float *RESTRICT gate, float *RESTRICT out) {
  int i = 4 * (block_x() * 256 + thread_x());
  for (int j = 0; j < 4; ++j)
    out[i + j] = in[i + j] * (0.5f + 0.5f * fast_tanh(gate[i + j]));
}
)";

void gated(benchmark::State &state, const Schedule &schedule, const CompileOptions &options) {
  constexpr int elements = 1 << 18;
  const Module module = Module::compile(gatedText, options);
  DeviceBuffer in(elements * 4, "in"), gate(elements * 4, "gate"), out(elements * 4, "out");
  for (int i = 0; i < elements; ++i)
    in.as<float>()[i] = gate.as<float>()[i] = static_cast<float>(i * 37 % 101) / 16.0f;
  for (auto _ : state) {
    const LaunchResult result = launch(module, "gated", {elements / 1024}, {256}, 0, schedule, in.as<float>(),
                                       gate.as<float>(), out.as<float>());
    if (!result.ok())
      state.SkipWithError(result.text().c_str());
    state.SetIterationTime(result.seconds);
  }
}

} // namespace

int main(int argc, char **argv) {
  const auto add = [](const std::string &name, const Schedule &schedule, const CompileOptions &options) {
    for (benchmark::internal::Benchmark *bench :
         {benchmark::RegisterBenchmark(("flash/" + name).c_str(), flash, schedule, options),
          benchmark::RegisterBenchmark(("gated/" + name).c_str(), gated, schedule, options),
          benchmark::RegisterBenchmark(("softmax/" + name).c_str(), softmax, schedule, options, std::size_t{1024}),
          benchmark::RegisterBenchmark(("softmax_beside_64_MiB/" + name).c_str(), softmax, schedule, options,
                                       std::size_t{64} << 20)})
      bench->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  CompileOptions plain;
  plain.checks = false;
  add("plain", Schedule{}, plain);
  int number = 0;
  for (const Schedule &schedule : testSchedules())
    add("schedule" + std::to_string(number++) + (schedule.checkAccesses ? "/checked" : ""), schedule, {});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
