// Small plans that several tests share.
#pragma once
#include "runtime/artefact.h"
#include "runtime/files.h"
#include "tests/runtime/made_instruction.h"
#include <cstring>
#include <string>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime::test {

inline std::string floatBytes(float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline Instruction kernelCall(uint32_t kernel, std::vector<Segment> segments, int64_t granularity, std::string label) {
  return instruction(KernelCall{kernel, std::move(segments), granularity}, std::move(label));
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
  Instruction first = instruction(MatmulCall{forward, 0, 1, 3, noBuffer, scratch ? BufferId{6} : noBuffer}, "x w");
  first.flops = forward.flops();
  Instruction second = kernelCall(0, {{{3, 2, 4}, 8}}, 1, "bias relu");
  second.sources = {{"model.cpp", 41, 7}};
  second.bytes = 2 * rows;
  Instruction third = instruction(MatmulCall{backward, 0, 4, 5, noBuffer, scratch ? BufferId{6} : noBuffer}, "x^T y");
  third.flops = backward.flops();
  plan.instructions = {first,
                       second,
                       third,
                       kernelCall(2, {{{4, 7, 8}, 320}}, 16, "scale"),
                       kernelCall(1, {{{5, 1}, 960}}, 64, "descend"),
                       instruction(CopyCall{8, 9}, "copy")};
  return plan;
}

/// A step as a GPU has it: a fill, a launch with two pointers, a tensor map and a scalar, and one over a table of
/// segments. Nothing here runs it.
inline Plan launchPlan() {
  Plan plan;
  plan.name = "launches";
  plan.alignment = 256;
  plan.inputs = {{"x", DType::bf16, {64, 128}}};
  plan.states = {{"w", DType::f32, {100}}, {"v", DType::f32, {30}}};
  plan.arenaBytes = 64 * 128 * 2;
  plan.buffers = {{Space::input, 0, 0, 64 * 128 * 2},
                  {Space::arena, 0, 0, 64 * 128 * 2},
                  {Space::state, 0, 0, 400},
                  {Space::state, 1, 0, 120},
                  {Space::table, 0, 0, 32}};
  plan.tables = {{std::string(32, '\0'), {{0, 2, true}, {16, 3, true}}}};
  plan.kernels = {{"tiles", 4, 0, "copy by tiles", 0}, {"descend", 1, 0, "", 1}};
  LaunchCall tiles;
  tiles.grid = {2, 1, 1};
  tiles.block = {128, 1, 1};
  tiles.cluster = {2, 1, 1};
  tiles.sharedBytes = 16384;
  tiles.parameters = std::string(152, '\0');
  tiles.parameterOffsets = {0, 128, 136, 144};
  tiles.pointerSlots = {{128, 0, false}, {136, 1, true}};
  tiles.mapSlots = {{0, 0, false, 2, 128, {128, 64}, {256}, {64, 64}}};
  LaunchCall descend;
  descend.kernel = 1;
  descend.parameters = std::string(8, '\0');
  descend.parameterOffsets = {0};
  descend.pointerSlots = {{0, 4, false}};
  plan.instructions = {instruction(FillCall{1, 0}, "zero"), instruction(tiles, "tiles"),
                       instruction(descend, "descend all")};
  return plan;
}

inline std::string testKernels() {
  return *readFile(TEST_KERNELS);
}

inline Artefact stepArtefact() {
  return cpuArtefact(stepPlan(), testKernels(), {{"target", "test"}});
}

/// The bytes of an artefact that was changed, with the checksum that fits them.
inline std::string withChecksum(std::string bytes) {
  XXH128_canonical_t canonical;
  bytes.resize(bytes.size() - sizeof canonical.digest);
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return bytes.append(reinterpret_cast<const char *>(canonical.digest), sizeof canonical.digest);
}

} // namespace tcc::runtime::test
