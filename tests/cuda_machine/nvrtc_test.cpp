// NVRTC's stand-in through the runtime's Nvrtc.
#include "tests/cuda_machine/cubin.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_machine/samples.h"

namespace tcc::machine {
namespace {

using tcc::cuda::deviceText;
using tcc::cuda::Prelude;

class MachineNvrtc : public MachineTest {
protected:
  static std::string errorFor(const std::string &text, const std::string &architecture,
                              std::vector<std::string> options = {}) {
    return errorOf([&] { cuda::Nvrtc::open().compile({"text.cu", text, architecture, std::move(options)}); });
  }
};

TEST_F(MachineNvrtc, GivesCodeAndFiguresOfEachKernel) {
  cuda::CompileResult result =
      cuda::Nvrtc::open().compile({"sample.cu", deviceText(Prelude::Portable) + sampleText, "sm_80", {}});
  Cubin cubin = decodeCubin(result.cubin.data());
  EXPECT_EQ(cubin.architecture, "sm_80");
  EXPECT_NE(cubin.text.find("KERNEL(reversed"), std::string::npos);
  EXPECT_EQ(cubin.text.find("__syncthreads"), std::string::npos) << "the device's prelude is left out";
  ASSERT_EQ(result.report.kernels.size(), 7u);
  EXPECT_EQ(result.report.kernels[3].name, "reversed");
  EXPECT_GT(result.report.kernels[3].registers, 0);
  EXPECT_EQ(ptxasFindings(result.report), "");
}

TEST_F(MachineNvrtc, AnErrorNamesTheLineOfTheText) {
  std::string bad = "KERNEL(k, 32, 1)(float *out) {\n  out[0] = 1.0f\n}\n";
  std::string error = errorFor(deviceText(Prelude::Portable) + bad, "sm_90a");
  EXPECT_TRUE(names(error, "compiling text.cu for sm_90a: NVRTC_ERROR_COMPILATION\nkernel.cu(2): error: expected"))
      << error;
  EXPECT_TRUE(names(error, "1 error detected in the compilation of \"text.cu\".")) << error;
}

TEST_F(MachineNvrtc, PrimitivesNeedTheirPreludeAndArchitecture) {
  std::string fence = "KERNEL(k, 128, 1)() {\n  fence_proxy_async(); // wgmma_fence\n}\n";
  EXPECT_TRUE(names(errorFor(deviceText(Prelude::Portable) + fence, "sm_90a"),
                    "identifier \"fence_proxy_async\" is undefined: it stands in hopper.cuh"));
  EXPECT_TRUE(names(errorFor(deviceText(Prelude::Tma) + fence, "sm_80"), "not supported on sm_80"));
  EXPECT_TRUE(names(errorFor(deviceText(Prelude::Wgmma) + fence, "sm_100a"), "wgmma is not supported on sm_100a"));
  EXPECT_EQ(errorFor(deviceText(Prelude::Tma) + fence, "sm_100a"), "no error");
  EXPECT_EQ(errorFor(deviceText(Prelude::Wgmma) + fence, "sm_90a"), "no error");
}

TEST_F(MachineNvrtc, OptionsAreKnownOrRefused) {
  std::string text = deviceText(Prelude::Portable) + "KERNEL(k, 32, 1)(int *out) {\n  out[0] = ANSWER;\n}\n";
  EXPECT_TRUE(names(errorFor(text, "sm_80"), "ANSWER"));
  EXPECT_EQ(errorFor(text, "sm_80", {"-DANSWER=42", "--fmad=false"}), "no error");
  EXPECT_EQ(errorFor("#define ANSWER 7\n" + text, "sm_80"), "no error");
  EXPECT_TRUE(names(errorFor(text, "sm_80", {"--fast"}), "unrecognized option --fast"));
  EXPECT_TRUE(names(errorFor(text, "sm_70"), "does not know the architecture `sm_70`"));
  EXPECT_TRUE(names(errorFor(text, "sm_80a"), "does not know the architecture `sm_80a`"));
  EXPECT_TRUE(names(errorFor(text, "sm_80", {"-arch=sm_70"}), "invalid value for --gpu-architecture (-arch): sm_70"));
  EXPECT_TRUE(names(errorFor("__global__ void k() {}", "sm_80"), "after the device prelude"));
}

TEST_F(MachineNvrtc, TextsCompileSideBySide) {
  std::vector<cuda::CompileRequest> requests;
  for (const char *value : {"1", "2", "broken;", "4"})
    requests.push_back({std::string("text") + value + ".cu",
                        deviceText(Prelude::Portable) + "KERNEL(k, 32, 1)(int *out) {\n  out[0] = " + value + ";\n}\n",
                        "sm_90",
                        {}});
  std::vector<cuda::CompileResult> results = cuda::Nvrtc::open().compileAll(requests, 2);
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].error.empty(), i != 2) << results[i].error;
  EXPECT_EQ(counters().compilations, 3u);
}

TEST_F(MachineNvrtc, EachReleaseHasItsArchitectures) {
  struct Case {
    const char *release;
    std::vector<std::string> known, unknown;
  };
  const std::string text = deviceText(Prelude::Portable) + "KERNEL(k, 32, 1)(int *out) {\n  out[0] = 1;\n}\n";
  for (const Case &each : {Case{"nvrtc=12060", {"sm_70", "sm_80", "sm_90a"}, {"sm_80a", "sm_100a", "sm_120"}},
                           {"nvrtc=12080", {"sm_70", "sm_100a", "sm_120a"}, {"sm_100f", "sm_103a", "sm_110"}},
                           {"nvrtc=12090", {"sm_100f", "sm_103a"}, {"sm_90f", "sm_88"}},
                           {"nvrtc=13000", {"sm_88", "sm_110", "compute_120f"}, {"sm_70", "compute_70", "sm_90f"}}}) {
    use(each.release);
    const cuda::Nvrtc nvrtc = cuda::Nvrtc::open();
    for (const std::string &architecture : each.known) {
      EXPECT_TRUE(nvrtc.supports(architecture)) << architecture << " by " << each.release;
      EXPECT_EQ(errorFor(text, architecture), "no error");
    }
    for (const std::string &architecture : each.unknown) {
      EXPECT_FALSE(nvrtc.supports(architecture)) << architecture << " by " << each.release;
      EXPECT_TRUE(
          names(errorFor(text, architecture), "does not know the architecture `" + architecture + "`; it knows"));
    }
  }
}

TEST(MachineCubin, RunsWhereADeviceWouldTakeIt) {
  struct Case {
    const char *architecture;
    int capability;
    bool runs;
  };
  for (Case c : {Case{"sm_80", 80, true},
                 {"sm_80", 86, true},
                 {"sm_86", 80, false},
                 {"sm_80", 90, false},
                 {"sm_90a", 90, true},
                 {"sm_90", 90, true},
                 {"sm_100a", 90, false},
                 {"sm_100a", 103, false},
                 {"compute_80", 90, true},
                 {"compute_90", 80, false},
                 {"compute_90a", 100, false}})
    EXPECT_EQ(runsOn(c.architecture, c.capability), c.runs) << c.architecture << " on " << c.capability;
}

TEST(MachineCubin, IsTakenByADriverOfItsMajorVersionAndPtxByOneAsNew) {
  struct Case {
    const char *architecture;
    int version, driver;
    bool isTaken;
  };
  for (Case c : {Case{"sm_90a", 12080, 12000, true},
                 {"sm_90a", 12080, 13000, true},
                 {"sm_90a", 13000, 12090, false},
                 {"compute_90", 12080, 12080, true},
                 {"compute_90", 12080, 12040, false},
                 {"compute_90", 12080, 13000, true},
                 {"compute_90", 13000, 12090, false}})
    EXPECT_EQ(isTaken({c.architecture, "", c.version}, c.driver), c.isTaken)
        << c.architecture << " by " << c.version << " on " << c.driver;
}

TEST(MachineCubin, DamageIsFoundOut) {
  std::vector<char> bytes = encodeCubin({"sm_80", "KERNEL(k, 32, 1)() {}"});
  EXPECT_EQ(decodeCubin(bytes.data()).text, "KERNEL(k, 32, 1)() {}");
  EXPECT_EQ(decodeCubin(encodeCubin({"sm_80", "", 12080}).data()).version, 12080);
  bytes[bytes.size() - 5] ^= 1;
  EXPECT_THROW(decodeCubin(bytes.data()), std::invalid_argument);
  EXPECT_THROW(decodeCubin("\177ELF"), std::invalid_argument);
}

} // namespace
} // namespace tcc::machine
