// Every kernel of flash attention through NVRTC for every architecture: no spill, no stack, no local memory, no
// serialised wgmma, whole warps at each collective, and shared memory and registers that the device has. Sound builds
// are remembered by the hash of what was compiled, in the temporary folder.
#include "codegen/cuda/attention/attention.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_compiled/resources.h"
#include "tests/cuda_runtime/opened_nvrtc.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace tcc::cuda;
using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

std::uint64_t hashOf(const std::string &text) {
  std::uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
  for (unsigned char byte : text)
    hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

/// What the table leaves off or takes at other lengths. Each run has all switches together, which take the most
/// registers, and the widest tiles; with TCC_FULL set every switch is there alone too.
std::vector<AttentionTiles> switchedTiles(const AttentionCase &of, AttentionTiles tiles) {
  std::vector<AttentionTiles> all;
  static const bool full = std::getenv("TCC_FULL") != nullptr;
  if (!full && !of.causal && of.dropout)
    return all;
  bool forward = of.pass == AttentionPass::Forward;
  bool narrow = of.headDim == 64;
  std::vector<int> warps = {8}, columns = {tiles.columns};
  if (forward && narrow)
    warps.push_back(12);
  if (of.pass == AttentionPass::BackwardKeys && narrow)
    columns.push_back(128);
  for (int rows : warps)
    for (int width : columns)
      for (bool overlap : {false, true})
        for (bool persistent : {false, true}) {
          if (!full && !(overlap && persistent))
            continue;
          AttentionTiles other = tiles;
          other.warps = rows;
          other.columns = width;
          other.overlap = overlap;
          other.persistent = persistent && !(forward && overlap && rows == 12 && of.dropout && !of.causal); // refused
          other.pingPong = forward && overlap && persistent;
          other.shortestFirst = of.causal && !forward && persistent;
          other.stages = overlap && narrow && !forward ? 3 : tiles.stages;
          all.push_back(other);
        }
  return all;
}

std::vector<AttentionKernel> kernelsFor(const std::string &architecture) {
  std::vector<AttentionKernel> kernels;
  for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys})
    for (int headDim : {32, 64, 96, 128})
      for (bool causal : {false, true})
        for (bool dropout : {false, true})
          for (AttentionElement element : {AttentionElement::Bf16, AttentionElement::F16}) {
            // f16 differs in its conversions and mma names alone: causal variants stand for the others.
            if (element == AttentionElement::F16 && !causal)
              continue;
            AttentionCase of{pass, element, headDim, causal, dropout};
            const AttentionTiles tiles = *chooseAttention(of, architecture, 1024);
            // The table has other tiles for other lengths and for windows.
            for (int length : {512, 1024, 2048, 4096, 8192})
              for (bool window : {false, true})
                if (causal || !window) {
                  of.window = window;
                  kernels.push_back(*attentionKernel(of, *chooseAttention(of, architecture, length)));
                }
            of.window = false;
            // A bias is added in portable kernels alone.
            AttentionCase biased = of;
            biased.bias = true;
            biased.window = causal && dropout;
            kernels.push_back(*attentionKernel(biased, *chooseAttention(biased, architecture, 1024)));
            if (tiles.path == AttentionPath::Hopper && element == AttentionElement::Bf16)
              for (const AttentionTiles &other : switchedTiles(of, tiles))
                if (!(other == tiles))
                  kernels.push_back(*attentionKernel(of, other));
          }
  const auto byText = [](const AttentionKernel &a, const AttentionKernel &b) { return a.text < b.text; };
  std::sort(kernels.begin(), kernels.end(), byText);
  kernels.erase(std::unique(kernels.begin(), kernels.end(),
                            [](const AttentionKernel &a, const AttentionKernel &b) { return a.text == b.text; }),
                kernels.end());
  return kernels;
}

class AttentionNvrtc : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionNvrtc, CompilesWithoutSpills) {
  auto nvrtc = tcc::test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  const std::string architecture = GetParam();
  if (!nvrtc->supports(architecture))
    GTEST_SKIP() << nvrtc->path() << " does not know " << architecture;
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "tcc-nvrtc-sound-5";
  std::filesystem::create_directories(folder);
  std::vector<CompileRequest> requests;
  std::vector<std::filesystem::path> marks;
  std::vector<tcc::test::LaunchUse> launches;
  for (const AttentionKernel &kernel : kernelsFor(architecture)) {
    CompileRequest plain{kernel.name + ".cu", deviceText(kernel.prelude) + kernel.text, architecture, {}};
    CompileRequest probe = plain;
    probe.options = {"-DTCC_BARRIER_CLOCK_LIMIT=2000000000"};
    // The probe build of the GPU's self-test has to be as sound; the fullest variants stand for the others.
    bool probed = kernel.prelude != Prelude::Portable && kernel.of.causal && kernel.of.dropout;
    for (CompileRequest request : {plain, probe}) {
      if (!request.options.empty() && !probed)
        continue;
      std::string key = request.text + architecture + std::to_string(nvrtc->version()) + nvrtc->path();
      for (const std::string &option : request.options)
        key += option;
      std::filesystem::path mark = folder / std::to_string(hashOf(key));
      if (std::filesystem::exists(mark))
        continue;
      requests.push_back(std::move(request));
      marks.push_back(mark);
      launches.push_back({kernel.name, kernel.threads, kernel.sharedBytes});
    }
  }
  // In batches, so that what is sound stays remembered when a run is cut short.
  constexpr std::size_t batch = 8;
  for (std::size_t first = 0; first < requests.size(); first += batch) {
    std::size_t count = std::min(batch, requests.size() - first);
    std::vector<CompileResult> results = nvrtc->compileAll(std::span(requests).subspan(first, count));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(results[i].error, "");
      if (!results[i].error.empty())
        continue;
      ASSERT_EQ(results[i].report.kernels.size(), 1u) << results[i].log;
      if (requests[first + i].options.empty()) { // a probe build's lanes leave when they give up
        EXPECT_EQ(tcc::test::divergentCollectives(results[i].ptx), std::vector<std::string>());
      }
      const KernelFigures &figures = results[i].report.kernels[0];
      EXPECT_GT(figures.registers, 60) << figures.name;
      const std::vector<std::string> excess = tcc::test::resourceFindings(
          results[i].report, results[i].ptx, architecture, std::span(launches).subspan(first + i, 1));
      EXPECT_EQ(excess, std::vector<std::string>());
      if (!excess.empty())
        continue;
      // What setmaxnreg gives and takes adds up only if the launch gave every thread its share.
      if (int threads = launches[first + i].threads; figures.name.find("hopper") != std::string::npos) {
        EXPECT_EQ(figures.registers, 65536 / threads / 8 * 8) << figures.name;
      }
      std::ofstream(marks[first + i]) << requests[first + i].name << " " << figures.registers << " registers\n";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, AttentionNvrtc, ::testing::ValuesIn(tcc::test::checkedArchitectures),
                         [](const auto &info) { return info.param; });

// The refusal works on this very text: a register budget that cannot hold the accumulators must spill.
TEST(AttentionNvrtcRefusal, SpillsAreRefused) {
  auto nvrtc = tcc::test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  AttentionCase of;
  AttentionKernel kernel = *attentionKernel(of, *chooseAttention(of, "sm_80", 1024));
  CompileRequest request{"tight.cu", deviceText(kernel.prelude) + kernel.text, "sm_80", {"--maxrregcount=64"}};
  // Launch bounds override the option, so they go.
  std::size_t at = request.text.find("__launch_bounds__(maxThreads, minBlocks)");
  ASSERT_NE(at, std::string::npos);
  request.text.erase(at, std::string("__launch_bounds__(maxThreads, minBlocks)").size());
  CompileResult result = nvrtc->compileAll(std::span(&request, 1))[0];
  EXPECT_NE(result.error.find("bytes of spill stores; none is allowed"), std::string::npos) << result.error;
}

} // namespace
