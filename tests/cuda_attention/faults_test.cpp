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
  Change change = plain;
  bool isBiased = false;
};

void overlapped(AttentionTiles &tiles) {
  tiles.overlap = true;
}
void inTurns(AttentionTiles &tiles) {
  tiles.overlap = tiles.pingPong = true;
}
void persistent(AttentionTiles &tiles) {
  tiles.persistent = true;
}

constexpr AttentionPass forward = AttentionPass::Forward;
constexpr AttentionPass query = AttentionPass::BackwardQuery;
constexpr AttentionPass keys = AttentionPass::BackwardKeys;

const std::vector<Fault> faults = {
    // Portable.
    {"no barrier in the loop", forward, "sm_80", "    block_barrier();\n    if (step + 1 < tiles.end)",
     "    if (step + 1 < tiles.end)"},
    {"no wait in the loop", forward, "sm_80", "    copy_async_wait<0>();\n    block_barrier();\n    if",
     "    block_barrier();\n    if"},
    {"next tile into this stage", forward, "sm_80", "int stage = (step + 1) & 1;", "int stage = step & 1;"},
    {"diagonal off by one", forward, "sm_80", "minimum(arguments.keys, query + arguments.diagonal + 1)",
     "minimum(arguments.keys, query + arguments.diagonal)"},
    {"last tile skipped", forward, "sm_80", "tiles_of(key_end(arguments, last), tileRows)",
     "key_end(arguments, last) / tileRows"},
    {"tile above the diagonal taken for whole", forward, "sm_80", "key + size <= query + arguments.diagonal + 1;",
     "key <= query + arguments.diagonal + 1;"},
    {"output not rescaled", forward, "sm_80", "*= shrink;", "*= 1.0f;"},
    {"swizzle of the copy only", forward, "sm_80", "copy_async_16(arena + tile + chunk_offset(row, chunk)",
     "copy_async_16(arena + tile + row * rowBytes + chunk * 16"},
    {"rows beyond the end stored", forward, "sm_80", "    if (first + tileRow + row < rows)\n", ""},
    {"dropout by column of the tile", forward, "sm_80", "16 * row, firstKey + 2 * (lane & 3));",
     "16 * row, 2 * (lane & 3));"},
    {"no warp barrier before the rows leave", forward, "sm_80", "  warp_barrier();\n", ""},
    {"delta not subtracted", query, "sm_80", " - delta[row];", ";"},
    {"shift not padded", query, "sm_80", "tiles_of(queries, 128) * 128", "queries"},
    {"scale forgotten", query, "sm_80", "factor[row] = arguments.scale;", "factor[row] = 1.0f;"},
    {"second head of the group skipped", keys, "sm_80", "int nextHead = lastOfHead ? head + 1 : head;",
     "int nextHead = head;"},
    {"probabilities not dropped", keys, "sm_80", "          if (!kept)\n            scores[row][column][i] = 0.0f;\n",
     ""},
    // Bias.
    {"scores with a bias not scaled", forward, "sm_80", "fma_f32(score, arguments.scale, added)",
     "fma_f32(score, 1.0f, added)", plain, true},
    {"the bias of another head", query, "sm_80", " + head * arguments.biasHeadStride", "", plain, true},
    {"queries and keys of the bias exchanged", keys, "sm_80", "int query = transposed ? other : own;",
     "int query = own;", plain, true},
    {"the first tile's bias for all", keys, "sm_80", "ownKey, firstQuery + 2 * (lane & 3));",
     "ownKey, 2 * (lane & 3));", plain, true},
    {"the bias read beyond the last key", forward, "sm_80", "query < arguments.queries && key < arguments.keys",
     "query < arguments.queries", plain, true},
    {"a shift in base 2 beside scaled scores", query, "sm_80", "biased ? logSumExp : logSumExp * log2OfE",
     "logSumExp * log2OfE", plain, true},
    // Hopper.
    {"stage parity of the consumer", forward, "sm_90a", "u32 parity = walked / stages & 1;", "u32 parity = 0;"},
    {"too few bytes expected", forward, "sm_90a", "mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys));",
     "mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys) / 2);"},
    {"values used before they came", forward, "sm_90a",
     "          mbarrier_wait(&valueFull[stage], parity);\n          wgmma_hold", "          wgmma_hold"},
    {"no wait for the product", forward, "sm_90a",
     "          wgmma_commit();\n          wgmma_wait<0>();\n          wgmma_hold(scores);",
     "          wgmma_commit();"},
    {"stage given back at once", forward, "sm_90a", "        mbarrier_wait(&keyFull[stage], parity);\n",
     "        mbarrier_wait(&keyFull[stage], parity);\n        give_back(&empty[stage]);\n"},
    {"a warp's lanes do not meet before a stage is given back", forward, "sm_90a",
     "  warp_barrier();\n  if (lane_index()", "  if (lane_index()"},
    {"the same in the query gradient", query, "sm_90a", "  warp_barrier();\n  if (lane_index()", "  if (lane_index()"},
    {"the same with overlap", forward, "sm_90a", "  warp_barrier();\n  if (lane_index()", "  if (lane_index()",
     overlapped},
    {"no barrier-init fence", forward, "sm_90a", "    fence_mbarrier_init();\n", ""},
    {"column operand's step", forward, "sm_90a", "wgmma_advance(b, step * 2048)", "wgmma_advance(b, step * 1024)"},
    {"too many registers", forward, "sm_90a", "consumers == 2 ? 240 : 160", "consumers == 2 ? 248 : 248"},
    {"shifts read after the stage was given back", keys, "sm_90a", "  warp_barrier();\n  if (lane_index()",
     "  if (lane_index()"},
    // Overlapped.
    {"keys given back in flight", forward, "sm_90a",
     "          wgmma_wait<1>();\n          wgmma_hold(scores);\n          give_back(&keyEmpty[next]);\n",
     "          give_back(&keyEmpty[next]);\n          wgmma_wait<1>();\n", overlapped},
    {"scores read in flight", forward, "sm_90a", "          wgmma_wait<1>();\n", "          wgmma_wait<2>();\n",
     overlapped},
    {"packed in flight", forward, "sm_90a", "          wgmma_hold(scores);\n          if (step + 2",
     "          pack_operand(probabilities, scores);\n          if (step + 2", overlapped},
    {"rescaled in flight", forward, "sm_90a", "          wgmma_hold(scores);\n          if (step + 2",
     "          rescale(output, shrink);\n          if (step + 2", overlapped},
    {"values given back in flight", forward, "sm_90a", "          // Only now may",
     "          give_back(&valueEmpty[stage]);\n          // Only now may", overlapped},
    {"no rescaling", forward, "sm_90a", "          rescale(output, shrink);\n", "", overlapped},
    {"next keys not awaited", forward, "sm_90a", "          if (step + 2 < own.end)\n", "          if (false)\n",
     overlapped},
    // Turns.
    {"a turn not awaited", forward, "sm_90a", "          await_turn(consumer);\n          wgmma_hold",
     "          wgmma_hold", inTurns},
    {"a turn not left", forward, "sm_90a", "          leave_turn(consumer);\n          wgmma_wait<1>",
     "          wgmma_wait<1>", inTurns},
    {"a turn of a skipped tile not left", forward, "sm_90a",
     "          await_turn(consumer);\n          leave_turn(consumer);\n        }",
     "          await_turn(consumer);\n        }", inTurns},
    {"the turn left to oneself", forward, "sm_90a", "1 + (consumer + 1) % consumers", "1 + consumer", inTurns},
    {"nobody has the first turn", forward, "sm_90a", "if (consumer == consumers - 1)", "if (false)", inTurns},
    {"a turn of half the threads", forward, "sm_90a", "named_barrier_sync(1 + consumer, 256)",
     "named_barrier_sync(1 + consumer, 128)", inTurns},
    // Persistent.
    {"queries overwritten in use", forward, "sm_90a", "              mbarrier_wait(&queryEmpty[0], (round & 1) ^ 1);\n",
     "              ;\n", persistent},
    {"queries of the round before", forward, "sm_90a", "mbarrier_wait(&queryFull[0], persistent ? round & 1 : 0);",
     "mbarrier_wait(&queryFull[0], 0);", persistent},
    {"queries never given back", forward, "sm_90a", "        give_back(&queryEmpty[0]);\n", "        ;\n", persistent},
    {"stages counted anew in each round", forward, "sm_90a", "      Span own = key_tiles",
     "      walked = 0;\n      Span own = key_tiles", persistent},
    {"last item missed", forward, "sm_90a", "persistent ? tiles * heads * batches : 1",
     "persistent ? tiles * heads * batches - 1 : 1", persistent},
    {"one item worked on by all blocks", forward, "sm_90a", "grid_x() - 1 - block_x() : block_x());", "0 : block_x());",
     persistent},
    {"head of another batch", forward, "sm_90a", "head % list.heads, head / list.heads}", "head % list.heads, 0}",
     persistent},
    {"keys overwritten in use", keys, "sm_90a", "          mbarrier_wait(&keyEmpty[0], (round & 1) ^ 1);\n",
     "          ;\n", persistent},
    {"wrong parity of a round", query, "sm_90a", "mbarrier_wait(&queryEmpty[0], (round & 1) ^ 1);",
     "mbarrier_wait(&queryEmpty[0], round & 1);", persistent},
    // Backward.
    {"key tiles of the other warpgroup", keys, "sm_90a", "row_operand(arena + key_tile(consumer))",
     "row_operand(arena + key_tile(0))"},
    {"probabilities of a product in flight", query, "sm_90a",
     "          wgmma_wait<1>();\n          wgmma_hold(scores);",
     "          wgmma_wait<2>();\n          wgmma_hold(scores);", overlapped},
    {"dP not awaited", query, "sm_90a",
     "          wgmma_wait<0>();\n          wgmma_hold(gradients);\n        }\n        if (dropout)",
     "          wgmma_hold(gradients);\n        }\n        if (dropout)", overlapped},
    {"a stage given back in flight", query, "sm_90a",
     "          wgmma_wait<2>();\n          wgmma_hold(queryGradient);\n", "", overlapped},
    {"this stage given back for the last", query, "sm_90a", "give_back(&empty[(walked + step - 1) % stages]);",
     "give_back(&empty[(walked + step) % stages]);", overlapped},
    {"next tiles not awaited", query, "sm_90a",
     "            mbarrier_wait(&full[(walked + step + 1) % stages], (walked + step + 1) / stages & 1);\n",
     "            ;\n", overlapped},
    {"last product not awaited", query, "sm_90a",
     "      if (overlap) {\n        wgmma_wait<0>();\n        wgmma_hold(queryGradient);\n", "      if (overlap) {\n",
     overlapped},
    {"dP of keys not awaited", keys, "sm_90a", "            wgmma_wait<1>();\n            wgmma_hold(gradients);",
     "            wgmma_wait<2>();\n            wgmma_hold(gradients);", overlapped},
    {"a stage of queries given back in flight", keys, "sm_90a",
     "            wgmma_wait<2>();\n            wgmma_hold(valueGradient);\n            wgmma_hold(keyGradient);\n", "",
     overlapped},
};

/// Whether the kernel with its text changed is told from a sound one.
bool caught(const Fault &fault, Memory &memory, const Results &exact, const Results &rounded) {
  AttentionKernel kernel = kernelOf(memory.problem, fault.pass, fault.architecture, fault.change);
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
  std::vector<emulator::Schedule> schedules = emulator::testSchedules();
  schedules.emplace_back();
  schedules.back().lanesLag = true;
  for (const emulator::Schedule &schedule : schedules) {
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

/// A problem with its oracle.
struct Setting {
  explicit Setting(const Problem &chosen) : problem(chosen), inputs(randomInputs(chosen, 5)) {
    exact = attentionReference(problem, inputs, false);
    rounded = attentionReference(problem, inputs, true);
  }
  /// Sound earlier passes, then the one at hand.
  bool catches(const Fault &fault) const {
    Memory memory(problem, false, inputs);
    for (AttentionPass pass : {forward, query})
      if (int(pass) < int(fault.pass)) {
        EXPECT_TRUE(launchOnce(memory, kernelOf(problem, pass, fault.architecture), {}).ok());
      }
    return caught(fault, memory, exact, rounded);
  }

  Problem problem;
  Inputs inputs;
  Results exact, rounded;
};

/// Long enough that every stage of every pipeline is used twice; items of several heads and batches for persistent
/// blocks, which take four each.
const Setting &settingOf(const Fault &fault) {
  auto problemOf = [](int length, int heads, int batch, Bias bias = Bias::None) {
    Problem problem;
    problem.bias = bias;
    problem.queries = problem.keys = length;
    problem.heads = problem.group = heads;
    problem.batch = batch;
    problem.causal = true;
    problem.dropout = 0.25;
    problem.scale = 0.3;
    return problem;
  };
  static const Setting portable(problemOf(330, 2, 1)), hopper(problemOf(650, 1, 1)), many(problemOf(260, 2, 2)),
      biased(problemOf(330, 2, 1, Bias::Each));
  if (fault.isBiased)
    return biased;
  AttentionTiles tiles;
  fault.change(tiles);
  return tiles.persistent ? many : std::string_view(fault.architecture) == "sm_90a" ? hopper : portable;
}

TEST(AttentionFaults, EveryPlantedFaultIsCaught) {
  for (const Fault &fault : faults)
    EXPECT_TRUE(settingOf(fault).catches(fault)) << fault.architecture << ": " << fault.name;
}

// A text that nobody changed is told from no sound one.
TEST(AttentionFaults, SoundKernelsPass) {
  for (AttentionPass pass : {forward, query, keys})
    for (const Change &change : {Change(overlapped), Change(persistent)}) {
      Fault none{"none", pass, "sm_90a", "", "", change};
      EXPECT_FALSE(settingOf(none).catches(none)) << int(pass);
    }
  for (AttentionPass pass : {forward, query, keys}) {
    Fault biased{"none", pass, "sm_80", "", "", plain, true};
    EXPECT_FALSE(settingOf(biased).catches(biased)) << int(pass);
  }
  Fault turns{"none", forward, "sm_90a", "", "", inTurns}, portable{"none", forward, "sm_80", "", ""};
  EXPECT_FALSE(settingOf(turns).catches(turns));
  EXPECT_FALSE(settingOf(portable).catches(portable));
}

} // namespace
