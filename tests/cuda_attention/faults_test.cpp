// The oracle is tested too: each planted fault in a kernel's text must show as a finding of the emulator under one of
// the test schedules, or as a wrong result.
#include "emulated_case.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tcc;
using namespace tcc::attention_test;
using namespace tcc::cuda;

namespace {

struct Fault {
  const char *name;
  AttentionPass pass;
  const char *architecture;
  const char *from;
  const char *to;
  bool overlap = false;
};

constexpr AttentionPass forward = AttentionPass::Forward;
constexpr AttentionPass query = AttentionPass::BackwardQuery;
constexpr AttentionPass keys = AttentionPass::BackwardKeys;

const Fault faults[] = {
    // Portable.
    {"no barrier in the loop", forward, "sm_80", "    block_barrier();\n    if (step + 1 < steps)",
     "    if (step + 1 < steps)"},
    {"no wait in the loop", forward, "sm_80", "    copy_async_wait<0>();\n    block_barrier();\n    if",
     "    block_barrier();\n    if"},
    {"next tile into this stage", forward, "sm_80", "int stage = (step + 1) & 1;", "int stage = step & 1;"},
    {"diagonal off by one", forward, "sm_80", "ownQuery + 8 * row + arguments.diagonal + 1);",
     "ownQuery + 8 * row + arguments.diagonal);"},
    {"last tile skipped", forward, "sm_80", "int steps = tiles_of(keyEnd, blockKeys);",
     "int steps = keyEnd / blockKeys;"},
    {"output not rescaled", forward, "sm_80", "*= shrink;", "*= 1.0f;"},
    {"swizzle of the copy only", forward, "sm_80", "copy_async_16(arena + tile + chunk_offset(row, chunk)",
     "copy_async_16(arena + tile + row * rowBytes + chunk * 16"},
    {"rows beyond the end stored", forward, "sm_80", "    if (first + tileRow + row < rows)\n", ""},
    {"dropout by column of the tile", forward, "sm_80", "firstKey + 2 * (lane & 3));", "2 * (lane & 3));"},
    {"no warp barrier before the rows leave", forward, "sm_80", "  warp_barrier();\n", ""},
    {"delta not subtracted", query, "sm_80", " - delta[row];", ";"},
    {"shift not padded", query, "sm_80", "tiles_of(queries, 128) * 128", "queries"},
    {"scale forgotten", query, "sm_80", "factor[row] = arguments.scale;", "factor[row] = 1.0f;"},
    {"second head of the group skipped", keys, "sm_80", "int nextHead = lastOfHead ? head + 1 : head;",
     "int nextHead = head;"},
    {"probabilities not dropped", keys, "sm_80", "          if (!kept)\n            scores[row][column][i] = 0.0f;\n",
     ""},
    // Hopper.
    {"stage parity of the consumer", forward, "sm_90a", "u32 parity = step / stages & 1;", "u32 parity = 0;"},
    {"too few bytes expected", forward, "sm_90a", "mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys));",
     "mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys) / 2);"},
    {"values used before they came", forward, "sm_90a",
     "        mbarrier_wait(&valueFull[stage], parity);\n        wgmma_hold", "        wgmma_hold"},
    {"no wait for the product", forward, "sm_90a",
     "        wgmma_commit();\n        wgmma_wait<0>();\n        wgmma_hold(scores);", "        wgmma_commit();"},
    {"stage given back at once", forward, "sm_90a", "      mbarrier_wait(&keyFull[stage], parity);\n",
     "      mbarrier_wait(&keyFull[stage], parity);\n      if (lane == 0)\n        mbarrier_arrive(&empty[stage]);\n"},
    {"no barrier-init fence", forward, "sm_90a", "    fence_mbarrier_init();\n", ""},
    {"column operand's step", forward, "sm_90a", "wgmma_advance(b, step * 2048)", "wgmma_advance(b, step * 1024)"},
    {"too many registers", forward, "sm_90a", "consumers == 2 ? 240 : 160", "consumers == 2 ? 248 : 248"},
    {"shifts read after the stage was given back", keys, "sm_90a", "      warp_barrier();\n", ""},
    // Overlapped.
    {"keys given back in flight", forward, "sm_90a",
     "        wgmma_wait<1>();\n        wgmma_hold(scores);\n        if (lane == 0)\n          "
     "mbarrier_arrive(&keyEmpty[next]);\n",
     "        if (lane == 0)\n          mbarrier_arrive(&keyEmpty[next]);\n        wgmma_wait<1>();\n", true},
    {"scores read in flight", forward, "sm_90a", "        wgmma_wait<1>();\n", "        wgmma_wait<2>();\n", true},
    {"packed in flight", forward, "sm_90a", "        wgmma_hold(scores);\n        if (step + 2",
     "        pack_operand(probabilities, scores);\n        if (step + 2", true},
    {"rescaled in flight", forward, "sm_90a", "        wgmma_hold(scores);\n        if (step + 2",
     "        rescale(output, shrink);\n        if (step + 2", true},
    {"values given back in flight", forward, "sm_90a", "        // Only now may",
     "        if (lane == 0)\n          mbarrier_arrive(&valueEmpty[stage]);\n        // Only now may", true},
    {"no rescaling", forward, "sm_90a", "        rescale(output, shrink);\n", "", true},
    {"next keys not awaited", forward, "sm_90a", "        if (step + 2 < ownSteps)\n", "        if (false)\n", true},
    // Backward.
    {"key tiles of the other warpgroup", keys, "sm_90a", "row_operand(arena + key_tile(consumer))",
     "row_operand(arena + key_tile(0))"},
};

/// Whether the kernel with its text changed is told from a sound one.
bool caught(const Fault &fault, Memory &memory, const Results &exact, const Results &rounded) {
  AttentionKernel kernel = kernelOf(memory.problem, fault.pass, fault.architecture, fault.overlap);
  std::size_t at = kernel.text.find(fault.from);
  EXPECT_NE(at, std::string::npos) << fault.name << ": the text to change is gone";
  if (at == std::string::npos)
    return false;
  kernel.text.replace(at, std::string(fault.from).size(), fault.to);
  struct Compared {
    AttentionPass pass;
    Tensor tensor;
    std::vector<double> Results::*values;
  };
  for (const emulator::Schedule &schedule : emulator::testSchedules()) {
    if (!launchOnce(memory, kernel, schedule).ok())
      return true;
    for (auto [pass, tensor, values] : {Compared{forward, Tensor::Output, &Results::output},
                                        {query, Tensor::QueryGradient, &Results::queryGradient},
                                        {keys, Tensor::KeyGradient, &Results::keyGradient},
                                        {keys, Tensor::ValueGradient, &Results::valueGradient}}) {
      if (pass != fault.pass)
        continue;
      Deviation result =
          deviation(memory.read(tensor), exact.*values, rounded.*values, memory.problem.element, exact.largestTerm);
      if (!(result.error <= result.allowed))
        return true;
    }
  }
  return false;
}

TEST(AttentionFaults, EveryPlantedFaultIsCaught) {
  // Long enough that every stage of every pipeline is used twice.
  Problem problem;
  problem.queries = problem.keys = 330;
  problem.heads = problem.group = 2;
  problem.causal = true;
  problem.dropout = 0.25;
  problem.scale = 0.3;
  Problem hopper = problem;
  hopper.queries = hopper.keys = 650;
  hopper.heads = hopper.group = 1;
  for (const char *architecture : {"sm_80", "sm_90a"}) {
    const Problem &used = std::string_view(architecture) == "sm_80" ? problem : hopper;
    Inputs inputs = randomInputs(used, 5);
    Results exact = attentionReference(used, inputs, false);
    Results rounded = attentionReference(used, inputs, true);
    for (const Fault &fault : faults) {
      if (std::string_view(fault.architecture) != architecture)
        continue;
      // Sound earlier passes, then the faulty one.
      Memory memory(used, false, inputs);
      for (AttentionPass pass : {forward, query})
        if (int(pass) < int(fault.pass)) {
          ASSERT_TRUE(launchOnce(memory, kernelOf(used, pass, architecture), {}).ok());
        }
      EXPECT_TRUE(caught(fault, memory, exact, rounded)) << architecture << ": " << fault.name;
    }
  }
}

} // namespace
