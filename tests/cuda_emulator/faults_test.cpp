// The detector is tested by faults planted in the sample kernels: each must show as its kind of finding, as wrong or
// schedule-dependent values, or as a refusal, under the schedules that a kernel's test runs.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

namespace tcc::emulator {
namespace {

struct Fault {
  std::string name, sample, from, to;
  /// The finding that must be among those reported; none where only the values can tell.
  std::optional<FindingKind> finding;
  /// Line of the unchanged kernel text that a finding must name, by a part of it; "" for any.
  std::string at;
};

void PrintTo(const Fault &fault, std::ostream *out) {
  *out << fault.name;
}

const std::vector<Fault> faults = {
    // Block barriers
    {"NoBarrierAfterCopies", "product", "    block_barrier(); // everybody's copies have landed\n", "\n",
     FindingKind::Race, ""},
    {"NoBarrierBeforeReuse", "product", "    block_barrier(); // the stage may be filled again\n", "\n",
     FindingKind::Race, ""},
    {"NoBarrierAfterCopiesFlash", "flash", "    block_barrier(); // everybody's copies have landed\n", "\n",
     FindingKind::Race, ""},
    {"NoBarrierBeforeReuseFlash", "flash", "    block_barrier(); // the stage may be filled again\n", "\n",
     FindingKind::Race, ""},
    {"BarrierInOneWarpOnly", "product", "    block_barrier(); // the stage may be filled again\n",
     "    if (warp == 0) block_barrier();\n", FindingKind::Divergence, ""},
    {"BarrierInTwoPlaces", "product", "    block_barrier(); // everybody's copies have landed\n",
     "    if (lane < 16) block_barrier(); else\nblock_barrier();\n", FindingKind::Divergence, ""},
    {"ReturnBeforeBarrier", "layer_norm", "  float sum = 0.0f, squares = 0.0f;\n",
     "  if (thread_x() >= 96) return; float sum = 0.0f, squares = 0.0f;\n", FindingKind::Divergence, ""},
    {"ReductionByHalfAWarp", "layer_norm", "  float mean = divide_f32(block_reduce_sum(sum, scratch)",
     "  float extra = 0; if (lane_index() < 16) extra = shuffle_xor(sum, 1); sum += 0 * extra;\n"
     "  float mean = divide_f32(block_reduce_sum(sum, scratch)",
     FindingKind::Divergence, ""},
    // cp.async
    {"WaitForTooFewGroups", "product", "copy_async_wait<1>", "copy_async_wait<2>", FindingKind::Race, ""},
    {"WaitForTooFewGroupsFlash", "flash", "copy_async_wait<1>", "copy_async_wait<2>", FindingKind::Race, ""},
    {"NoWait", "product", "    copy_async_wait<1>();\n", "\n", FindingKind::Race, ""},
    {"CommitOnlyWhenLoading", "product",
     "      load_stage(arena + (step + 1) % 2 * 8192, a, b, m, n, k, step + 1);\n    copy_async_commit();\n",
     "      { load_stage(arena + (step + 1) % 2 * 8192, a, b, m, n, k, step + 1);\n    copy_async_commit(); }\n",
     FindingKind::Race, ""},
    {"CopiesNeverAwaited", "product", "  for (int tile = 0; tile < 8; ++tile)\n",
     "  copy_async_16(arena + 16 * thread_x(), a); copy_async_commit(); for (int tile = 0; tile < 8; ++tile)\n",
     FindingKind::Leftover, ""},
    {"WrongStage", "product", "    const unsigned char *stage = arena + step % 2 * 8192;",
     "    const unsigned char *stage = arena + (step + 1) % 2 * 8192;", FindingKind::Race, ""},
    {"MisalignedCopy", "product", "copy_async_16(stage + tile_offset(row, chunk), a",
     "copy_async_16(stage + 8 + tile_offset(row, chunk), a", FindingKind::Misaligned, "a + (inA"},
    {"TailReadsOutside", "product", "    bool inA = rowA < m;", "    bool inA = rowA <= m;", FindingKind::OutOfBounds,
     "a + (inA"},
    {"TailNotFilled", "product", "    copy_async_16(stage + 4096 + tile_offset(row, chunk), b",
     "    if (inB) copy_async_16(stage + 4096 + tile_offset(row, chunk), b", FindingKind::Uninitialized,
     "ldmatrix_x4(b00"},
    // Masks, indices, lane maps
    {"TailWritesOutside", "product", "      if (row < m && column < n)", "      if (row <= m && column < n)",
     FindingKind::OutOfBounds, "out[row"},
    {"ColumnsWrittenTwice", "product", "+ tile * 8 + lane % 4 * 2 + i % 2;", "+ tile * 8 + lane % 4 * 2;",
     FindingKind::WrittenTwice, "out[row"},
    {"TileNeverWritten", "product", "  for (int tile = 0; tile < 8; ++tile)\n",
     "  for (int tile = 0; tile < 7; ++tile)\n", FindingKind::NotWritten, ""},
    {"DynamicMemoryTooSmall", "product", "tile_offset(row, chunk), b", "4096 + tile_offset(row, chunk), b",
     FindingKind::OutOfBounds, "b + (inB"},
    {"CausalMaskOffByOne", "flash", "quad * 2 + j <= row", "quad * 2 + j < row", std::nullopt, ""},
    {"CausalMaskForgotten", "flash", "step * 64 + i * 8 + quad * 2 + j <= row", "true", std::nullopt, ""},
    {"TransposeForgotten", "flash", "ldmatrix_x4_trans", "ldmatrix_x4", std::nullopt, ""},
    {"FragmentsSwapped", "product", "mma_m16n8k16<bf16>(d[2 * pair], fragmentA, b00, b01);",
     "mma_m16n8k16<bf16>(d[2 * pair], fragmentA, b01, b00);", std::nullopt, ""},
    {"RowSumOfHalfTheQuad", "flash", "quad_reduce_sum(sum[half])", "sum[half] + shuffle_xor(sum[half], 1)",
     std::nullopt, ""},
    {"WrongLanePair", "flash", "lane / 16 * 8 + lane % 8, part", "lane / 8 % 2 * 8 + lane % 8, part", std::nullopt, ""},
    // Named barriers
    {"NamedBarrierTooFew", "ring", "named_barrier_sync(1 + tile % 2, 128);", "named_barrier_sync(1 + tile % 2, 64);",
     FindingKind::Protocol, ""},
    {"NamedBarrierWrongId", "ring", "        named_barrier_sync(3 + tile % 2, 128);",
     "        named_barrier_sync(3 + (tile + 1) % 2, 128);", FindingKind::Divergence, ""},
    {"NamedBarrierNoEmpty", "ring", "      if (tile >= 2)\n        named_barrier_sync(3 + tile % 2, 128);\n", "\n\n",
     std::nullopt, ""},
    {"NamedBarrierZero", "ring", "      named_barrier_arrive(1 + tile % 2, 128);",
     "      named_barrier_arrive(0, 128);", FindingKind::Protocol, ""},
    {"NamedBarrierLeftover", "ring", "      if (tile + 2 < tiles)\n", "\n", FindingKind::Leftover, ""},
    // mbarrier and TMA
    {"ExpectTooFewBytes", "pipeline", "mbarrier_arrive_expect(&full[stage], stageBytes);",
     "mbarrier_arrive_expect(&full[stage], stageBytes - 8192);", FindingKind::Race, ""},
    {"ExpectTooManyBytes", "pipeline", "mbarrier_arrive_expect(&full[stage], stageBytes);",
     "mbarrier_arrive_expect(&full[stage], stageBytes + 16);", FindingKind::Divergence, ""},
    {"WrongParityFull", "pipeline", "mbarrier_wait(&full[stage], step / 2 & 1);",
     "mbarrier_wait(&full[stage], (step / 2 & 1) ^ 1);", FindingKind::Race, ""},
    {"ParityNeverFlips", "pipeline", "mbarrier_wait(&full[stage], step / 2 & 1);", "mbarrier_wait(&full[stage], 0);",
     FindingKind::Protocol, "mbarrier_wait(&full"},
    {"WrongParityEmpty", "pipeline", "mbarrier_wait(&empty[stage], (step / 2 & 1) ^ 1);",
     "mbarrier_wait(&empty[stage], step / 2 & 1);", FindingKind::Divergence, ""},
    {"NoWaitForEmpty", "pipeline", "        mbarrier_wait(&empty[stage], (step / 2 & 1) ^ 1);\n", "\n",
     FindingKind::Protocol, ""},
    {"NoWaitForFull", "pipeline", "      mbarrier_wait(&full[stage], step / 2 & 1);\n", "\n", std::nullopt, ""},
    {"EmptyCountTooSmall", "pipeline", "mbarrier_init(&empty[stage], 8);", "mbarrier_init(&empty[stage], 4);",
     std::nullopt, ""},
    {"StageReleasedEarly", "pipeline",
     "      wgmma_wait<0>();\n      wgmma_hold(d);\n      if (lane_index() == 0)\n        "
     "mbarrier_arrive(&empty[stage]);\n",
     "      if (lane_index() == 0)\n        mbarrier_arrive(&empty[stage]);\n      wgmma_wait<0>();\n      "
     "wgmma_hold(d);\n",
     FindingKind::Race, ""},
    {"NoBarrierInitFence", "pipeline", "    fence_mbarrier_init();\n", "\n", FindingKind::Protocol,
     "tma_load_2d(tile, &mapA"},
    {"NoBarrierAfterInit", "pipeline", "  block_barrier();\n", "\n", std::nullopt, ""},
    {"ArenaAlignedTo128", "pipeline", "DYNAMIC_SHARED(arena, 1024);", "DYNAMIC_SHARED(arena, 128);",
     FindingKind::Misaligned, ""},
    {"BoxRowsWrong", "pipeline", "step * 64, block_y() * 128);", "step * 64, block_y() * 64);", std::nullopt, ""},
    {"StoreNeverAwaited", "pipeline", "      tma_store_wait<0>();\n", "\n", FindingKind::Leftover, ""},
    // A race where the load lands before the block ends, else a leftover: that depends on the host's compiler.
    {"LoadNeverAwaited", "pipeline",
     "      for (int step = 0; step < steps; ++step) {\n        int stage = step % 2;\n",
     "      for (int step = 0; step <= steps; ++step) {\n        int stage = step % 2;\n", std::nullopt, ""},
    {"StoredResultReadEarly", "stores", "    tma_store_wait<0>(); // what", "    tma_store_wait_read<0>(); // what",
     FindingKind::Race, "sum += tiles"},
    {"StoredSourceReusedEarly", "stores", "      tma_store_wait_read<0>(); // the", "      // the", FindingKind::Race,
     "tile[k] ="},
    {"StoreWaitLeavesOne", "stores", "    tma_store_wait<0>(); // what", "    tma_store_wait<1>(); // what",
     FindingKind::Race, "sum += tiles"},
    {"NoProxyFence", "pipeline", "    fence_proxy_async();\n", "\n", FindingKind::Race, "tma_store_2d"},
    {"NoBarrierBeforeStore", "pipeline", "    named_barrier_sync(2 + group, 128);\n", "\n", FindingKind::Race, ""},
    {"NoBarrierBeforeStaging", "pipeline", "    named_barrier_sync(1, 256);\n", "\n", FindingKind::Race, ""},
    // wgmma and registers
    {"NoWgmmaFence", "pipeline", "      wgmma_fence();\n", "\n", FindingKind::Protocol, ""},
    {"WgmmaWaitTooFew", "pipeline", "      wgmma_wait<0>();\n", "      wgmma_wait<1>();\n", std::nullopt, ""},
    {"NoWgmmaCommit", "pipeline", "      wgmma_commit();\n", "\n", std::nullopt, ""},
    {"WrongLeadingOffset", "pipeline", "tile + stageA, 8192, 1024", "tile + stageA, 4096, 1024", std::nullopt, ""},
    {"WrongSwizzle", "pipeline", "tile + group * 8192, 16, 1024, swizzle_128",
     "tile + group * 8192, 16, 1024, swizzle_64", std::nullopt, ""},
    {"WrongStepB", "pipeline", "wgmma_advance(b, part * 2048)", "wgmma_advance(b, part * 1024)", std::nullopt, ""},
    {"AccumulateFromTheStart", "pipeline", "step > 0 || part > 0", "true", std::nullopt, ""},
    {"RegisterSumTooLarge", "pipeline", "registers_release<24>", "registers_release<32>", FindingKind::Divergence, ""},
    {"RegisterCountOdd", "pipeline", "registers_acquire<240>", "registers_acquire<236>", FindingKind::Protocol, ""},
    {"ScoresReadInFlight", "overlap",
     "    wgmma_wait<1>(); // the scores\n    wgmma_hold(s);\n    wgmma_wait<0>(); // the product: now p may change\n",
     "    wgmma_wait<2>();\n    pack_scores(p, s);\n    wgmma_wait<0>();\n", FindingKind::Protocol, ""},
    {"PackedInFlight", "overlap",
     "    wgmma_wait<0>(); // the product: now p may change\n    wgmma_hold(o);\n    if (more)\n      pack_scores(p, "
     "s);\n",
     "    if (more)\n      pack_scores(p, s);\n    wgmma_wait<0>();\n    wgmma_hold(o);\n", FindingKind::Protocol, ""},
    {"ResultReadInFlight", "overlap", "    wgmma_wait<0>(); // the product: now p may change\n",
     "    if (more) wgmma_wait<0>();\n", std::nullopt, ""},
    {"AccumulatorScaledInFlight", "overlap", "    wgmma_wait<1>(); // the scores\n",
     "    for (int i = 0; i < 32; ++i) o[i] *= 2.0f;\n    wgmma_wait<1>();\n", FindingKind::Protocol, ""},
    {"AccumulatorChangedAfterTheFence", "overlap", "    wgmma_hold(o);\n    wgmma_fence();\n",
     "    wgmma_fence();\n    if (tile > 0) o[5] *= 2.0f;\n", FindingKind::Protocol, ""},
    {"NoFenceAfterPacking", "overlap", "    wgmma_hold(o);\n    wgmma_fence();\n", "    wgmma_hold(o);\n",
     FindingKind::Protocol, ""},
    {"NoProxyFenceForWgmma", "overlap", "  fence_proxy_async();\n", "\n", FindingKind::Race, ""},
    {"ProxyFenceAfterTheBarrier", "overlap", "  fence_proxy_async();\n  block_barrier();\n",
     "  block_barrier();\n  fence_proxy_async();\n", FindingKind::Race, ""},
    {"RegistersInOneWarpOnly", "pipeline", "    registers_release<24>();\n",
     "    if (warp_index() == 0) registers_release<24>();\n", FindingKind::Divergence, ""},
};

int lineOf(const std::string &text, const std::string &part) {
  std::size_t at = text.find(part);
  return at == std::string::npos ? -1 : 1 + static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, IsCaught) {
  const Fault &fault = GetParam();
  const Sample &sample = sampleCalled(fault.sample);
  std::string sound = kernelText(fault.sample + ".cu"), text = sound;
  std::size_t at = text.find(fault.from);
  ASSERT_NE(at, std::string::npos) << "the kernel text has no `" << fault.from << "`";
  ASSERT_EQ(text.find(fault.from, at + 1), std::string::npos) << "`" << fault.from << "` stands twice";
  text.replace(at, fault.from.size(), fault.to);

  Module module = Module::compile(text);
  std::string findings;
  std::set<FindingKind> kinds;
  std::set<std::string> places;
  std::vector<char> first;
  bool wrongValues = false;
  for (const Schedule &schedule : testSchedules()) {
    SampleRun run = sample.run(module, schedule);
    findings += run.result.text();
    for (const Finding &finding : run.result.findings) {
      kinds.insert(finding.kind);
      places.insert(finding.where);
    }
    if (first.empty())
      first = run.bytes;
    wrongValues |= !(run.error <= sample.tolerance) || run.bytes != first;
  }
  RecordProperty("findings", findings);
  if (fault.finding) {
    EXPECT_TRUE(kinds.count(*fault.finding)) << "no finding of kind `" << name(*fault.finding) << "` in:\n" << findings;
  } else {
    EXPECT_TRUE(!kinds.empty() || wrongValues) << "nothing shows this fault";
  }
  if (!fault.at.empty()) {
    EXPECT_TRUE(places.count("kernel.cu:" + std::to_string(lineOf(text, fault.at)))) << findings;
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, Faults, testing::ValuesIn(faults), [](const auto &info) { return info.param.name; });

} // namespace
} // namespace tcc::emulator
