// A training step as a GPU has it, made by hand: matmuls, launches, a table of segments, a fill and a copy.
#pragma once

#include "codegen/cuda/device/device_text.h"
#include "runtime/artefact.h"
#include "runtime/device/cuda/nvrtc.h"

#include <cstring>
#include <string>

namespace tcc::runtime::test {

inline const char *const stepKernels = R"(
struct Segment {
  const float *gradient;
  float *state;
  long long extent;
};
KERNEL(bias_relu, 128, 1)(const float *x, const float *bias, float *y, int columns, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n) {
    float value = x[i] + bias[i % columns];
    y[i] = value > 0.0f ? value : 0.0f;
  }
}
KERNEL(column_sums, 128, 1)(const float *x, float *sums, int rows, int columns) {
  int column = thread_x();
  if (column < columns)
    for (int row = 0; row < rows; ++row)
      sums[column] += x[row * columns + column];
}
KERNEL(descend, 128, 1)(const Segment *segments, const float *rate) {
  Segment segment = segments[block_x()];
  for (long long i = thread_x(); i < segment.extent; i += 128)
    segment.state[i] = segment.state[i] - *rate * segment.gradient[i];
}
KERNEL(add_up, 32, 1)(const float *x, float *sum, int n) {
  float total = 0.0f;
  if (thread_x() == 0) {
    for (int i = 0; i < n; ++i)
      total += x[i];
    *sum = total;
  }
}
KERNEL(beyond, 32, 1)(float *x) {
  x[960 + thread_x()] = 1.0f;
}
KERNEL(blocks, 32, 1)(float *count) {
  if (block_x() == 0 && thread_x() == 0)
    *count = static_cast<float>(grid_x());
}
)";

/// A parameter block, built field by field.
struct Parameters {
  LaunchCall &call;
  /// A written one is a result, unless it `adds`.
  void pointer(BufferId buffer, bool written, bool adds = false) {
    pad(8);
    call.pointerSlots.push_back({static_cast<int64_t>(call.parameters.size()), buffer, written, !written || adds});
    add(int64_t{0});
  }
  template <typename Value>
  void add(Value value) {
    pad(sizeof value);
    call.parameterOffsets.push_back(static_cast<int64_t>(call.parameters.size()));
    call.parameters.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void pad(size_t unit) { call.parameters.resize((call.parameters.size() + unit - 1) / unit * unit); }
};

inline constexpr int64_t rows = 8, inner = 24, columns = 40;

inline Instruction product(GemmDesc desc, BufferId a, BufferId b, BufferId c, BufferId scratch, const char *label) {
  Instruction made;
  made.call = MatmulCall{desc, a, b, c, noBuffer, scratch};
  made.label = label;
  made.flops = desc.flops();
  return made;
}

/// x [8, 24], rate []; states w [24, 40], b [40]: y = max(x w + b, 0); loss = sum of y; w -= rate * x^T y;
/// b -= rate * column sums of y.
inline Plan gpuStepPlan() {
  Plan plan;
  plan.name = "step";
  plan.alignment = 256;
  plan.inputs = {{"x", DType::f32, {rows, inner}}, {"rate", DType::f32, {}}};
  plan.outputs = {{"loss", DType::f32, {}}, {"y", DType::f32, {rows, columns}}};
  plan.states = {{"w", DType::f32, {inner, columns}}, {"b", DType::f32, {columns}}};
  const int64_t rowBytes = rows * columns * 4, weightBytes = inner * columns * 4, scratchBytes = 4096;
  plan.buffers = {{Space::input, 0, 0, rows * inner * 4}, // 0: x
                  {Space::input, 1, 0, 4},                // 1: rate
                  {Space::state, 0, 0, weightBytes},      // 2: w
                  {Space::state, 1, 0, columns * 4},      // 3: b
                  {Space::arena, 0, 4, rowBytes},         // 4: x w, where no 16 bytes begin
                  {Space::arena, 0, 1536, rowBytes},      // 5: y
                  {Space::arena, 0, 2816, weightBytes},   // 6: gradient of w
                  {Space::arena, 0, 6656, columns * 4},   // 7: gradient of b
                  {Space::arena, 0, 6912, scratchBytes},  // 8: scratch
                  {Space::output, 0, 0, 4},               // 9: loss
                  {Space::output, 1, 0, rowBytes},        // 10: y
                  {Space::table, 0, 0, 48}};              // 11: segments
  plan.arenaBytes = 6912 + scratchBytes;
  std::string table(48, '\0');
  for (auto [at, extent] : {std::pair{16, inner * columns}, {40, columns}})
    std::memcpy(&table[static_cast<size_t>(at)], &extent, 8);
  plan.tables = {{table, {{0, 6, false}, {8, 2, true}, {24, 7, false}, {32, 3, true}}}};
  plan.kernels = {{"bias_relu", 5, 0, "", 0}, {"column_sums", 4, 0, "", 0}, {"descend", 2, 0, "", 0},
                  {"add_up", 3, 0, "", 0},    {"beyond", 1, 0, "", 0},      {"blocks", 1, 0, "", 0}};
  const DType f32 = DType::f32;
  auto launch = [&](uint32_t kernel, int64_t blocks, int64_t threads, const char *label, auto fill) {
    Instruction made;
    LaunchCall call;
    call.kernel = kernel;
    call.grid = {blocks, 1, 1};
    call.block = {threads, 1, 1};
    fill(Parameters{call});
    made.call = call;
    made.label = label;
    made.bytes = 2 * rowBytes;
    return made;
  };
  Instruction zero, copy;
  zero.call = FillCall{7, 0};
  zero.label = "zero sums";
  copy.call = CopyCall{5, 10};
  copy.label = "copy y";
  plan.instructions = {zero,
                       product({{1, 1},
                                rows,
                                columns,
                                inner,
                                {f32, inner, 1, {}},
                                {f32, columns, 1, {}},
                                {f32, columns, 1, {}},
                                false,
                                {},
                                false},
                               0, 2, 4, 8, "x w"),
                       launch(0, 3, 128, "bias relu",
                              [](Parameters p) {
                                p.pointer(4, false), p.pointer(3, false), p.pointer(5, true);
                                p.add(int32_t(columns)), p.add(int32_t(rows * columns));
                              }),
                       product({{1, 1},
                                inner,
                                columns,
                                rows,
                                {f32, 1, inner, {}},
                                {f32, columns, 1, {}},
                                {f32, columns, 1, {}},
                                false,
                                {},
                                false},
                               0, 5, 6, 8, "x^T y"),
                       launch(1, 1, 128, "column sums",
                              [](Parameters p) {
                                p.pointer(5, false), p.pointer(7, true, true);
                                p.add(int32_t(rows)), p.add(int32_t(columns));
                              }),
                       launch(3, 1, 32, "add up",
                              [](Parameters p) {
                                p.pointer(5, false), p.pointer(9, true);
                                p.add(int32_t(rows * columns));
                              }),
                       launch(2, 2, 128, "descend", [](Parameters p) { p.pointer(11, false), p.pointer(1, false); }),
                       copy};
  return plan;
}

/// The kernels' code by the NVRTC that the process finds.
inline std::string stepCubin() {
  static const std::string code = [] {
    cuda::CompileRequest request{
        "step.cu", tcc::cuda::deviceText(tcc::cuda::Prelude::Portable) + stepKernels, "sm_90a", {}};
    request.refuseFindings = false;
    const auto cubin = cuda::Nvrtc::open().compile(request).cubin;
    return std::string(cubin.begin(), cubin.end());
  }();
  return code;
}

inline Artefact gpuArtefact(Plan plan) {
  return {{{"cuda:sm_90a", {}, std::move(plan), {stepCubin()}}}, {}};
}

} // namespace tcc::runtime::test
