// Small plans that several tests share.
#pragma once
#include "runtime/artefact.h"
#include "runtime/files.h"
#include <cstring>
#include <string>

namespace tcc::runtime::test {

inline std::string floatBytes(float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline Instruction kernelCall(uint32_t kernel, std::vector<Segment> segments, int64_t granularity, std::string label) {
  Instruction instruction;
  instruction.call = KernelCall{kernel, std::move(segments), granularity};
  instruction.label = std::move(label);
  return instruction;
}

/// One step over x [8, 24], w [24, 40] (state), b [40] (state): h = x w; y = max(h + b, 0); w -= 0.5 (x^T y);
/// out = 3 y, and a copy of it.
inline Plan stepPlan() {
  Plan plan;
  plan.name = "step";
  plan.threads = 2;
  plan.inputs = {{"x", DType::f32, {8, 24}}};
  plan.outputs = {{"out", DType::f32, {8, 40}}, {"copy", DType::f32, {8, 40}}};
  plan.states = {{"w", DType::f32, {24, 40}}, {"b", DType::f32, {40}}};
  plan.constants = {floatBytes(3)};
  const int64_t rows = 8 * 40 * 4, weights = 24 * 40 * 4;
  GemmDesc forward{
      {1, 1}, 8,           40, 24, {DType::f32, 24, 1, {}}, {DType::f32, 40, 1, {}}, {DType::f32, 40, 1, {}},
      false,  std::nullopt};
  GemmDesc backward{
      {1, 1}, 24,          40, 8, {DType::f32, 1, 24, {}}, {DType::f32, 40, 1, {}}, {DType::f32, 40, 1, {}},
      false,  std::nullopt};
  const int64_t scratch =
      (std::max(*scratchpadBytes(forward, plan.threads), *scratchpadBytes(backward, plan.threads)) + 63) / 64 * 64;
  plan.arenaBytes = scratch + 2 * rows + weights;
  plan.buffers = {{Space::input, 0, 0, 8 * 24 * 4},
                  {Space::state, 0, 0, weights},
                  {Space::state, 1, 0, 40 * 4},
                  {Space::arena, 0, scratch, rows},               // 3: h
                  {Space::arena, 0, scratch + rows, rows},        // 4: y
                  {Space::arena, 0, scratch + 2 * rows, weights}, // 5: gradient of w
                  {Space::arena, 0, 0, scratch},
                  {Space::constant, 0, 0, 4},
                  {Space::output, 0, 0, rows},
                  {Space::output, 1, 0, rows}};
  plan.kernels = {{"bias_relu", 3, 1, "add, maximum"}, {"descend", 2, 1, "multiply, subtract"}, {"scale", 3, 1, ""}};
  Instruction first;
  first.call = MatmulCall{forward, 0, 1, 3, noBuffer, scratch ? BufferId{6} : noBuffer};
  first.label = "x w";
  first.flops = forward.flops();
  Instruction second = kernelCall(0, {{{3, 2, 4}, 8}}, 1, "bias relu");
  second.sources = {{"model.cpp", 41, 7}};
  second.bytes = 2 * rows;
  Instruction third;
  third.call = MatmulCall{backward, 0, 4, 5, noBuffer, scratch ? BufferId{6} : noBuffer};
  third.label = "x^T y";
  third.flops = backward.flops();
  Instruction copy;
  copy.call = CopyCall{8, 9};
  copy.label = "copy";
  plan.instructions = {first,
                       second,
                       third,
                       kernelCall(2, {{{4, 7, 8}, 320}}, 16, "scale"),
                       kernelCall(1, {{{5, 1}, 960}}, 64, "descend"),
                       copy};
  return plan;
}

inline std::string testKernels() {
  return *readFile(TEST_KERNELS);
}

inline Artefact stepArtefact() {
  return {stepPlan(), testKernels(), {{"target", "test"}}};
}

} // namespace tcc::runtime::test
