// Features by name, and what TCC_CPU hides. The programs' part of it is in tests/frontend/driver_test.cpp; that levels
// are those of LLVM in tests/codegen/target_test.cpp.
#include "runtime/cpu.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

const std::string v2 = "sse4.2,popcnt", v3 = v2 + ",avx,avx2,fma,f16c,bmi,bmi2,lzcnt,movbe",
                  v4 = v3 + ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl";

TEST(CpuLevels, haveTheFeaturesOfThoseBelow) {
  EXPECT_EQ(featuresOfLevel("x86-64"), "");
  EXPECT_EQ(featuresOfLevel("x86-64-v2"), v2);
  EXPECT_EQ(featuresOfLevel("x86-64-v3"), v3);
  EXPECT_EQ(featuresOfLevel("x86-64-v4"), v4);
}

TEST(CpuLevels, areWhatTheEnvironmentMayAskFor) {
  const struct {
    const char *wanted;
    std::string present, level, error;
  } cases[] = {
      {"native", v3, "", ""},
      {"x86-64", "", "x86-64", ""},
      {"x86-64", v4, "x86-64", ""},
      {"x86-64-v2", v3, "x86-64-v2", ""},
      {"x86-64-v3", v3, "x86-64-v3", ""},
      {"x86-64-v3", v4 + ",amx-tile", "x86-64-v3", ""},
      {"x86-64-v4", "gfni," + v4, "x86-64-v4", ""},
      {"x86-64-v4", v3, "",
       "TCC_CPU=x86-64-v4 asks for what this CPU lacks: avx512f, avx512bw, avx512cd, avx512dq, avx512vl"},
      {"x86-64-v2", "sse4.2", "", "TCC_CPU=x86-64-v2 asks for what this CPU lacks: popcnt"},
      {"x86-64-v3", v2 + ",avx2,fma,f16c,bmi2,lzcnt,movbe", "",
       "TCC_CPU=x86-64-v3 asks for what this CPU lacks: avx, bmi"}, // not found in avx2, bmi2
      {"x86-64-v5", v4, "",
       "TCC_CPU=x86-64-v5 is no level of x86-64; x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and native are known"},
      {"avx2", v4, "",
       "TCC_CPU=avx2 is no level of x86-64; x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and native are known"},
      {" x86-64", v4, "",
       "TCC_CPU= x86-64 is no level of x86-64; x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and native are known"},
  };
  for (const auto &[wanted, present, level, error] : cases) {
    const Expected<std::string_view> found = limitedLevel(wanted, present);
    EXPECT_EQ(found ? "" : found.error().message(), error) << wanted << " of " << present;
    if (found) {
      EXPECT_EQ(*found, level) << wanted << " of " << present;
    }
  }
}

TEST(CpuFeatures, areShownUpToTheLevel) {
  EXPECT_FALSE(requireCpuFeatures(""));
  EXPECT_FALSE(requireCpuFeatures(cpuFeatures()));
  EXPECT_NE(requireCpuFeatures("avx2,avx3").message().find("unknown CPU feature `avx3`"), std::string::npos);
  if (cpuLimit().empty())
    return;
  EXPECT_EQ(cpuFeatures(), featuresOfLevel(cpuLimit()));
  EXPECT_FALSE(hasTiles());
  EXPECT_EQ(requireCpuFeatures("avx512bf16").message(),
            "this CPU, shown as " + std::string(cpuLimit()) +
                " by TCC_CPU, lacks avx512bf16; compile the step for it (-march=)");
}

} // namespace
} // namespace tcc::runtime
