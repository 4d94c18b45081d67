// The table of tiles, the launch shapes and the refusals.
#include "codegen/cuda/attention/attention.h"

#include <gtest/gtest.h>

using namespace tcc::cuda;

namespace {

TEST(AttentionChoices, EveryCaseHasTiles) {
  for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys})
    for (int headDim : {32, 64, 96, 128})
      for (const char *architecture : {"sm_80", "sm_90a", "sm_100a"}) {
        AttentionCase of{pass, AttentionElement::Bf16, headDim, true, false};
        AttentionKernel kernel = *attentionKernel(of, *chooseAttention(of, architecture, 1024));
        // rowShift and rowDelta, which the backward reads in whole tiles, are padded to 128 queries.
        int queries = pass == AttentionPass::BackwardKeys ? kernel.tiles.columns : kernel.rows;
        if (pass != AttentionPass::Forward)
          EXPECT_EQ(128 % queries, 0) << kernel.name;
        EXPECT_NE(kernel.text.find(kernel.name + ", "), std::string::npos);
        EXPECT_EQ(preludeOf(kernel.text), kernel.prelude) << kernel.name;
      }
}

TEST(AttentionChoices, OtherHeadDimensionsAreRefused) {
  AttentionCase of;
  of.headDim = 80;
  EXPECT_EQ(chooseAttention(of, "sm_80", 1024).error().message(),
            "attention with head dimension 80: the kernels serve 32, 64, 96 and 128");
}

TEST(AttentionChoices, SwitchesAreRefusedWhereNoKernelHasThem) {
  AttentionCase of;
  AttentionTiles tiles = *chooseAttention(of, "sm_90a", 1024);
  auto refused = [](AttentionCase of, AttentionTiles tiles) { return attentionKernel(of, tiles).error().message(); };
  tiles.overlap = tiles.pingPong = tiles.persistent = true;
  AttentionKernel kernel = *attentionKernel(of, tiles);
  EXPECT_EQ(kernel.name, "attention_forward_hopper_overlapped_pingpong_persistent_bf16_d64_192x128");
  EXPECT_NE(kernel.text.find(kernel.name + ", "), std::string::npos);
  of.dropout = true;
  EXPECT_EQ(refused(of, tiles),
            "attention in turns of three warpgroups, in persistent blocks and with dropout: without a mask its 160 "
            "registers a thread do not hold the state of rounds and turns; plain blocks or two warpgroups do");
  AttentionTiles two = tiles;
  two.warps = 8;
  EXPECT_EQ(refused(of, two), "");
  of.dropout = false;
  of.pass = AttentionPass::BackwardQuery;
  EXPECT_EQ(refused(of, tiles),
            "attention in turns: only the forward pass with overlap has them, and two or more warpgroups");
  tiles.pingPong = false;
  EXPECT_EQ(refused(of, tiles), "");
  tiles.shortestFirst = true;
  EXPECT_EQ(refused(of, tiles), "attention with the shortest tiles first: only causal tiles differ");
  of.causal = true;
  EXPECT_EQ(refused(of, tiles), "");
  tiles.path = AttentionPath::Portable;
  EXPECT_EQ(refused(of, tiles),
            "attention with overlap, turns, persistent blocks or the shortest first: only Hopper's kernels have them");
  of.causal = false;
  of.window = true;
  EXPECT_EQ(refused(of, *chooseAttention(of, "sm_80", 1024)), "attention with a window: only a causal one has it");
  of.window = false;
  const AttentionTiles hopper = *chooseAttention(of, "sm_90a", 1024);
  of.bias = true;
  EXPECT_EQ(refused(of, hopper), "attention with a bias: only portable kernels have it");
  EXPECT_EQ(attentionKernel(of, *chooseAttention(of, "sm_90a", 1024))->name,
            attentionKernel(of, *chooseAttention(of, "sm_80", 1024))->name);
}

TEST(AttentionChoices, PersistentGridsAreTheDevice) {
  AttentionArguments arguments = {};
  arguments.queries = 300;
  arguments.keys = 300;
  arguments.heads = arguments.group = 2;
  AttentionTiles tiles{AttentionPath::Hopper, 8, 1, 64};
  tiles.persistent = true;
  AttentionKernel kernel = *attentionKernel({AttentionPass::BackwardQuery}, tiles);
  using Grid = std::array<unsigned, 3>;
  EXPECT_EQ(attentionGrid(kernel, arguments, 5, 7), (Grid{7, 1, 1}));
  EXPECT_EQ(attentionGrid(kernel, arguments, 5, 132), (Grid{30, 1, 1}));
  arguments.queries = 0;
  EXPECT_EQ(attentionGrid(kernel, arguments, 5, 132)[0], 0u);
}

TEST(AttentionChoices, GridsCoverRowsHeadsAndBatch) {
  AttentionArguments arguments = {};
  arguments.queries = 129;
  arguments.keys = 65;
  arguments.heads = 6;
  arguments.group = 3;
  auto gridOf = [&](AttentionPass pass, AttentionTiles tiles) {
    return attentionGrid(*attentionKernel({pass, AttentionElement::F16, 64, true, true}, tiles), arguments, 5);
  };
  using Grid = std::array<unsigned, 3>;
  EXPECT_EQ(gridOf(AttentionPass::Forward, {AttentionPath::Portable, 4, 2, 64, 1}), (Grid{2, 6, 5}));
  EXPECT_EQ(gridOf(AttentionPass::BackwardQuery, {AttentionPath::Portable, 4, 1, 32, 1}), (Grid{4, 6, 5}));
  EXPECT_EQ(gridOf(AttentionPass::BackwardKeys, {AttentionPath::Portable, 4, 1, 32, 1}), (Grid{2, 2, 5}));
  EXPECT_EQ(attentionWorkspace(arguments, 5), 5 * 6 * 256);
}

TEST(AttentionChoices, BadArgumentsAreNamed) {
  AttentionCase of;
  alignas(16) static unsigned short memory[64];
  alignas(16) static float statistics[64];
  AttentionArguments good = {};
  good.query = good.key = good.value = good.output = {memory, 64, 64, 64};
  good.queries = good.keys = good.heads = good.group = 1;
  good.scale = 0.125f;
  good.logSumExp = statistics;
  EXPECT_EQ(checkAttention(of, good), "");
  auto with = [&](auto change) {
    AttentionArguments bad = good;
    change(bad);
    return checkAttention(of, bad);
  };
  EXPECT_EQ(with([](auto &a) { a.group = 2; }),
            "attention with 1 heads in groups of 2: the group must divide the heads");
  EXPECT_EQ(with([](auto &a) { a.heads = 65536; }), "attention with 65536 heads: at most 65535 in one launch");
  EXPECT_EQ(with([](auto &a) { a.keys = -1; }), "attention over 1 queries and -1 keys: neither can be negative");
  EXPECT_EQ(with([](auto &a) { a.key.rowStride = 68; }),
            "attention's key has strides 64, 64, 68: multiples of 8 elements are needed");
  EXPECT_EQ(with([](auto &a) { a.value.rowStride = 56; }),
            "attention's value has the row stride 56: at least the head dimension 64 is needed");
  EXPECT_EQ(with([](auto &a) { a.query.data = memory + 1; }),
            "attention's query begins at an odd address: a multiple of 16 bytes is needed");
  EXPECT_EQ(with([](auto &a) { a.output.data = nullptr; }), "attention's output has no address");
  EXPECT_EQ(with([](auto &a) { a.scale = -1; }), "attention with the scale -1.000000: a positive one is needed");
  EXPECT_EQ(with([](auto &a) { a.logSumExp = nullptr; }), "attention needs a buffer for the log-sum-exp");
  of.window = of.causal = true;
  EXPECT_EQ(checkAttention(of, good), "attention with a window of 0 keys: at least 1 is needed");
  of.window = of.causal = false;
  of.bias = true;
  EXPECT_EQ(checkAttention(of, good), "attention with a bias needs its address");
  of.bias = false;
  of.dropout = true;
  EXPECT_EQ(checkAttention(of, good), "attention with dropout needs both words of a seed and the batch's first row");
  of.dropout = false;
  of.pass = AttentionPass::BackwardQuery;
  EXPECT_EQ(checkAttention(of, good), "attention's backward needs the workspaces rowShift and rowDelta");
  good.rowShift = statistics;
  good.rowDelta = statistics + 1;
  EXPECT_EQ(checkAttention(of, good),
            "attention's workspaces rowShift and rowDelta begin at odd addresses: multiples of 16 bytes are needed");
}

} // namespace
