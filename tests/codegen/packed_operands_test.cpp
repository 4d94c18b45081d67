// keepPackedOperands: which matmuls of a plan share a packed B, by plans that are made here.
#include "codegen/packed_operands.h"
#include "tests/runtime/made_instruction.h"
#include <gtest/gtest.h>

namespace tcc {
namespace {

using namespace runtime;
using runtime::test::instruction;

/// Two weights, which matmuls may read in their order, and room for results.
class PackedOperands : public testing::Test {
protected:
  static constexpr int64_t side = 32, bytes = side * side * 4, ofPacked = 1000;
  static constexpr BufferId x = 0, c = 1, w = 2, v = 3, upperW = 4, other = 5;
  Plan plan;
  std::vector<size_t> candidates;

  void SetUp() override {
    plan.inputs = {{"x", DType::f32, {side, side}}};
    plan.states = {{"w", DType::f32, {side, side}}, {"v", DType::f32, {side, side}}};
    plan.arenaBytes = 2 * bytes;
    plan.buffers = {{Space::input, 0, 0, bytes}, {Space::arena, 0, 0, bytes},     {Space::state, 0, 0, bytes},
                    {Space::state, 1, 0, bytes}, {Space::state, 0, 0, bytes / 2}, {Space::arena, 0, bytes, bytes}};
  }

  static GemmDesc desc() {
    const MatrixLayout dense{DType::f32, side, 1, {}};
    return {{1, 1}, side, side, side, dense, dense, dense, false, std::nullopt};
  }
  void matmul(BufferId b, bool accumulates = false, bool isCandidate = true) {
    MatmulCall call{desc(), x, b, c};
    call.desc.accumulate = accumulates;
    if (isCandidate)
      candidates.push_back(plan.instructions.size());
    plan.instructions.push_back(instruction(call, "matmul"));
  }
  void copy(BufferId from, BufferId to) { plan.instructions.push_back(instruction(CopyCall{from, to}, "copy")); }
  void loop(int64_t turns, uint32_t body) {
    plan.instructions.push_back(instruction(LoopCall{turns, body, {}}, "loop"));
  }

  /// For each matmul: '-' if it shares nothing, else the number of its packed B, with '!' where it packs.
  std::string keep() {
    const size_t before = plan.buffers.size();
    keepPackedOperands(plan, candidates, [](const MatmulCall &) { return ofPacked; });
    EXPECT_FALSE(validatePlan(plan)) << validatePlan(plan).message();
    std::string text;
    for (const Instruction &made : plan.instructions)
      if (const auto *call = std::get_if<MatmulCall>(&made.call))
        text += call->packed == noBuffer ? "-" : std::to_string(call->packed - before) + (call->isPacked ? "" : "!");
    return text;
  }
};

TEST_F(PackedOperands, ThreeOfOneShare) {
  for (int i = 0; i < 3; ++i)
    matmul(w), matmul(v, i > 0);
  matmul(w, false, /*isCandidate=*/false);
  EXPECT_EQ(keep(), "0!-0-0--"); // of v one has another description
  EXPECT_EQ(plan.arenaBytes, 2 * bytes + ofPacked);
  EXPECT_EQ(plan.buffers.back(), (Buffer{Space::arena, 0, 2 * bytes, ofPacked}));
}

TEST_F(PackedOperands, WhatIsWrittenIsPackedAgain) {
  matmul(w);
  copy(x, other); // elsewhere
  matmul(w), matmul(w);
  copy(x, w);
  matmul(w), matmul(w), matmul(w);
  plan.buffers.push_back({Space::input, 0, 0, bytes / 2});
  copy(plan.buffers.size() - 1, upperW); // a part of it
  matmul(w), matmul(w);
  EXPECT_EQ(keep(), "0!001!11--");
}

TEST_F(PackedOperands, LoopsOfOneTurnAreNone) {
  matmul(w);
  loop(1, 3);
  matmul(w);
  loop(1, 1);
  matmul(w);
  matmul(w);
  EXPECT_EQ(keep(), "0!000");
}

TEST_F(PackedOperands, EachTurnOfALoopPacks) {
  matmul(w), matmul(w);
  loop(2, 3);
  matmul(w), matmul(w), matmul(w);
  loop(2, 2);
  matmul(w), matmul(w);
  matmul(w);
  EXPECT_EQ(keep(), "0!01!11--0");
}

TEST_F(PackedOperands, BranchesShareNothingWithEachOther) {
  plan.buffers.push_back({Space::constant, 0, 0, 1});
  plan.constants = {std::string(1, '\1')};
  plan.instructions.push_back(instruction(BranchCall{static_cast<BufferId>(plan.buffers.size() - 1), 2, 3}, "cond"));
  matmul(w), matmul(w);
  matmul(w), matmul(w), matmul(w);
  EXPECT_EQ(keep(), "--0!00");
}

TEST_F(PackedOperands, AQuarterOfThePlanIsSpent) {
  for (int i = 0; i < 3; ++i)
    matmul(w), matmul(v);
  plan.arenaBytes = bytes;
  plan.inputs[0].shape = {1};
  plan.buffers[x].bytes = 4;
  plan.buffers.resize(4);
  plan.states[0].shape = plan.states[1].shape = {side, 8};
  plan.buffers[w].bytes = plan.buffers[v].bytes = side * 8 * 4;
  for (Instruction &made : plan.instructions) {
    GemmDesc &desc = std::get<MatmulCall>(made.call).desc;
    desc.m = desc.k = 1;
    desc.n = side;
  }
  ASSERT_LT(plan.plannedBytes() / 4, 2 * ofPacked);
  ASSERT_GE(plan.plannedBytes() / 4, ofPacked);
  EXPECT_EQ(keep(), "0!-0-0-");
}

TEST_F(PackedOperands, NothingIsDoneWhereNothingIsPacked) {
  for (int i = 0; i < 3; ++i)
    matmul(w);
  const Plan before = plan;
  keepPackedOperands(plan, candidates, [](const MatmulCall &) { return 0; });
  EXPECT_EQ(plan, before);
}

} // namespace
} // namespace tcc
