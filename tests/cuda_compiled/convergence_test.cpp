// The check of convergence itself: PTX by hand, each with and without a fault, and what NVRTC makes of a kernel that
// has had the fault.
#include "codegen/cuda/device/device_text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_runtime/opened_nvrtc.h"

#include <gtest/gtest.h>

namespace tcc::test {
namespace {

struct Case {
  const char *name;
  bool isSound;
  const char *body;
};

void PrintTo(const Case &one, std::ostream *out) {
  *out << one.name;
}

const Case cases[] = {
    {"InABranchOfLanes", false,
     "setp.gt.u32 %p1, %tid.x, 3;\n@%p1 bra $L_end;\nshfl.sync.idx.b32 %r1|%p2, %r2, 0, 31, -1;\n$L_end:\nret;"},
    {"AfterABranchOfLanes", true,
     "setp.gt.u32 %p1, %tid.x, 3;\n@%p1 bra $L_end;\nadd.s32 %r2, %r2, 1;\n$L_end:\nbar.warp.sync -1;\nret;"},
    {"InABranchOfBlocks", true,
     "mov.u32 %r1, %ctaid.x;\nsetp.gt.u32 %p1, %r1, 3;\n@%p1 bra $L_end;\nbar.sync 0;\n$L_end:\nret;"},
    {"InABranchByAVote", true,
     "setp.gt.u32 %p1, %tid.x, 3;\nvote.sync.any.pred %p2, %p1, -1;\n@%p2 bra $L_end;\nbar.warp.sync "
     "-1;\n$L_end:\nret;"},
    {"InABranchByAnElection", false,
     "{ .reg .pred p; elect.sync _|p, -1; selp.u32 %r1, 1, 0, p; }\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L_end;\n"
     "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, [%r5];\n$L_end:\nret;"},
    {"InABranchOfWarps", true,
     "mov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;\nmov.u32 %r6, 0;\nshfl.sync.idx.b32 %r3|%p1, %r2, %r6, 31, -1;\n"
     "setp.eq.s32 %p2, %r3, 0;\n@%p2 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"FromALaneThatDiffers", false,
     "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 7;\nshfl.sync.idx.b32 %r3|%p1, %r2, %r1, 31, -1;\nsetp.eq.s32 %p2, %r3, 0;\n"
     "@%p2 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"AfterSomeHaveReturned", false, "setp.gt.u32 %p1, %tid.x, 3;\n@%p1 ret;\nbar.warp.sync -1;\nret;"},
    {"InALoopOfSomeLanes", false,
     "mov.u32 %r1, %tid.x;\n$L_loop:\nvote.sync.ballot.b32 %r2, %p2, -1;\nadd.s32 %r1, %r1, -1;\n"
     "setp.gt.s32 %p1, %r1, 0;\n@%p1 bra $L_loop;\nret;"},
    {"AfterALoopOfSomeLanes", true,
     "mov.u32 %r1, %tid.x;\n$L_loop:\nadd.s32 %r1, %r1, -1;\nsetp.gt.s32 %p1, %r1, 0;\n@%p1 bra $L_loop;\n"
     "bar.warp.sync -1;\nret;"},
    {"InALoopOfAllLanes", true,
     "mov.u32 %r1, %ctaid.x;\n$L_loop:\nvote.sync.ballot.b32 %r2, %p2, -1;\nadd.s32 %r1, %r1, -1;\n"
     "setp.gt.s32 %p1, %r1, 0;\n@%p1 bra $L_loop;\nret;"},
    {"ByAValueOfABranch", false, // what differs is which way set it
     "mov.u32 %r1, 0;\nsetp.gt.u32 %p1, %tid.x, 3;\n@%p1 bra $L_on;\nmov.u32 %r1, 1;\n$L_on:\nsetp.eq.s32 %p2, %r1, "
     "0;\n"
     "@%p2 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"ByACountOfALoop", false, // lanes have counted differently far
     "mov.u32 %r3, 0;\nmov.u32 %r1, %tid.x;\n$L_loop:\nadd.s32 %r3, %r3, 1;\nadd.s32 %r1, %r1, -1;\n"
     "setp.gt.s32 %p1, %r1, 0;\n@%p1 bra $L_loop;\nsetp.gt.s32 %p2, %r3, 4;\n@%p2 bra $L_end;\nbar.warp.sync -1;\n"
     "$L_end:\nret;"},
    {"ByACopyOfEachWay", true,
     "mov.u32 %r3, %ctaid.x;\nsetp.gt.u32 %p1, %tid.x, 3;\nmov.u32 %r1, %r3;\n@%p1 bra $L_on;\nmov.u32 %r1, %r3;\n"
     "$L_on:\nsetp.eq.s32 %p2, %r1, 0;\n@%p2 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"ByCopiesThatDiffer", false,
     "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ctaid.y;\nsetp.gt.u32 %p1, %tid.x, 3;\nmov.u32 %r1, %r4;\n"
     "@%p1 bra $L_on;\nmov.u32 %r1, %r3;\n$L_on:\nsetp.eq.s32 %p2, %r1, 0;\n@%p2 bra $L_end;\nbar.warp.sync -1;\n"
     "$L_end:\nret;"},
    {"ByMemoryOfALane", false,
     "mov.u32 %r1, %tid.x;\nld.shared.u32 %r2, [%r1+4];\nsetp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L_end;\nbar.warp.sync "
     "-1;\n"
     "$L_end:\nret;"},
    {"ByMemoryOfAll", true,
     "ld.param.u64 %rd1, [k_param_0];\nld.global.u32 %r2, [%rd1+4];\nsetp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L_end;\n"
     "bar.warp.sync -1;\n$L_end:\nret;"},
    {"ByAParameterOfAll", true,
     "mov.b64 %rd1, k_param_0;\nld.param.u32 %r2, [%rd1+4];\nsetp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L_end;\n"
     "bar.warp.sync -1;\n$L_end:\nret;"},
    {"ByWhatAFunctionReturned", false,
     "{ .param .b32 retval0; call.uni (retval0), f, (); ld.param.b32 %r2, [retval0+0]; }\nsetp.eq.s32 %p1, %r2, 0;\n"
     "@%p1 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"ByPredicate", false, "setp.gt.u32 %p1, %tid.x, 3;\n@!%p1 bar.warp.sync -1;\nret;"},
    {"AfterAWait", true,
     "$L_wait:\n{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%r5], %r6; selp.u32 %r1, 1, 0, p; }\n"
     "setp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L_wait;\nwgmma.fence.sync.aligned;\nret;"},
    {"OfOneNameInTwoScopes", true,
     "{ .reg .pred p; setp.gt.u32 p, %tid.x, 3; selp.u32 %r1, 1, 0, p; }\n"
     "{ .reg .pred p; setp.gt.u32 p, %ctaid.x, 3; selp.u32 %r2, 1, 0, p; }\nsetp.eq.s32 %p1, %r2, 0;\n"
     "@%p1 bra $L_end;\nbar.warp.sync -1;\n$L_end:\nret;"},
    {"BesideALoopForEver", true,
     "setp.gt.u32 %p1, %tid.x, 3;\n@%p1 bra $L_ever;\nret;\n$L_ever:\nnanosleep.u32 1000;\nbra.uni $L_ever;"},
};

std::string ptxOf(const std::string &body) {
  return ".version 8.7\n.target sm_90a\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid "
         "256, 1, "
         "1\n{\n\t.reg .pred \t%p<3>;\n\t.reg .b32 \t%r<7>;\n" +
         body + "\n\n}\n";
}

class Convergence : public testing::TestWithParam<Case> {};

TEST_P(Convergence, isSeen) {
  std::vector<std::string> findings = divergentCollectives(ptxOf(GetParam().body));
  EXPECT_EQ(findings.empty(), GetParam().isSound) << (findings.empty() ? "" : findings[0]);
}

INSTANTIATE_TEST_SUITE_P(Ptx, Convergence, testing::ValuesIn(cases), [](const auto &info) { return info.param.name; });

TEST(Convergence, refusesWhatItDoesNotFollow) {
  EXPECT_THROW(divergentCollectives(ptxOf("$L_table: .branchtargets $L_end;\nbrx.idx %r1, $L_table;\n$L_end:\nret;")),
               std::runtime_error);
  EXPECT_THROW(divergentCollectives(
                   ".version 8.7\n.target sm_90a\n.address_size 64\n.func f()\n{\nbar.warp.sync -1;\nret;\n}\n"),
               std::runtime_error);
}

// A kernel of column sums, as the compiler writes it, with its warp's number taken at the entry and within the branch
// of lanes that have a column.
TEST(Convergence, ofCompiledTotals) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  auto text = [](bool atEntry) {
    return cuda::deviceText(cuda::Prelude::Portable) +
           std::string("KERNEL(totals, 256, 1)(const float *in0, float *out0) {\n  const int warp = warp_index();\n"
                       "  SHARED(float, totals, 1024);\n  float total[4] = {};\n"
                       "  const int group = block_x() * 128 + lane_index() * 4;\n"
                       "  for (int r = warp; r < 40; r += 8)\n    if (group < 1600)\n      for (int lane = 0; lane < "
                       "4; ++lane)\n"
                       "        total[lane] += in0[r * 1600 + group + lane];\n"
                       "  if (group < 1600)\n    for (int lane = 0; lane < 4; ++lane)\n      totals[") +
           (atEntry ? "warp" : "warp_index()") +
           " * 128 + lane_index() * 4 + lane] = total[lane];\n  block_barrier();\n"
           "  out0[block_x() * 256 + thread_x()] = totals[thread_x()];\n}\n";
  };
  for (const char *architecture : {"sm_80", "sm_90a", "sm_100a"}) {
    if (!nvrtc->supports(architecture))
      continue;
    auto findings = [&](bool atEntry) {
      return divergentCollectives(nvrtc->compile({"totals.cu", text(atEntry), architecture, {}}).ptx);
    };
    EXPECT_EQ(findings(true), std::vector<std::string>()) << architecture;
    std::vector<std::string> wrong = findings(false);
    ASSERT_FALSE(wrong.empty()) << architecture;
    EXPECT_NE(wrong[0].find("shfl.sync.idx"), std::string::npos) << wrong[0];
  }
}

} // namespace
} // namespace tcc::test
