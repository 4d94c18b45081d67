// The GPU program's parts: its cases and kernels, the self-test, the lane maps, the speeds.
#pragma once

#include "attention_case.h"
#include "backend.h"

#include <functional>
#include <string>
#include <vector>

namespace tcc::gpu_attention {

using attention_test::Problem;
using attention_test::Tensor;

/// Which kernels run a problem: sm_80's, those that the table chooses, those with overlap, or those with every switch
/// that ought to pay: persistent blocks too, and the forward pass in turns.
enum class Variant { Portable, Chosen, Overlapped, Switched };
constexpr Variant allVariants[] = {Variant::Portable, Variant::Chosen, Variant::Overlapped, Variant::Switched};
/// "portable", "hopper", "hopper overlapped", "hopper switched".
const char *nameOf(Variant variant);
/// The variants that differ for a problem on an architecture.
std::vector<Variant> variantsOf(const Problem &problem, const std::string &architecture);

cuda::AttentionKernel kernelFor(const Problem &problem, cuda::AttentionPass pass, const std::string &architecture,
                                Variant variant);
constexpr cuda::AttentionPass allPasses[] = {cuda::AttentionPass::Forward, cuda::AttentionPass::BackwardQuery,
                                             cuda::AttentionPass::BackwardKeys};

/// Self-attention of `length` with the usual scale.
Problem problemOf(int headDim, int length, bool causal, int batch, int heads);

struct SelfTest {
  Problem problem;
  bool packed;
  Variant variant;
};
/// Every path at the lengths where tiles end, and one case each of dropout, groups, f16, other key lengths. A rehearsal
/// has the short ones alone.
std::vector<SelfTest> selfTests(bool rehearsal);
/// A launch of every pass and path at a size that compute-sanitizer can afford.
std::vector<SelfTest> smallTests();
std::vector<Problem> benchProblems(bool rehearsal);
/// Other tiles and switches for a pass of a problem, to be timed beside the chosen ones.
std::vector<cuda::AttentionTiles> candidatesFor(const Problem &problem, cuda::AttentionPass pass,
                                                const std::string &architecture);
std::vector<Problem> sweepProblems(bool rehearsal);

/// Everything that the program may launch on an architecture.
std::vector<cuda::AttentionKernel> allKernels(const std::string &architecture);

/// A case's tensors on the device.
struct Memory {
  Memory(Backend &backend, const Problem &problem, bool packed);
  void fill(Tensor tensor, const std::vector<double> &dense);
  std::vector<double> get(Tensor tensor);
  /// The tensor's whole buffer, and NaN into all of it.
  std::vector<std::uint16_t> bits(Tensor tensor);
  void poison(Tensor tensor);

  Backend &backend;
  Problem problem;
  bool packed;
  void *bases[attention_test::tensorCount];
  cuda::AttentionArguments arguments;
  std::size_t rows;
};

/// Runs the probe build, then the plain one twice; prints errors beside what is allowed. False when something is wrong.
bool runCase(Backend &backend, const SelfTest &test);

/// Compares lane maps with the repository's tables, prints the differences, and writes the machine's own tables to
/// `folder` unless that is empty. False when they differ. `which`: "warp", "hopper", or "" for all that there are.
bool runLanes(Backend &backend, const std::string &which, const std::string &folder);

/// TFLOP/s of all shapes and variants: a line of JSON each into `file`, a table on stdout.
void bench(Backend &backend, const std::string &file, bool rehearsal);
/// The same for other tiles and switches of each pass, whose bits are compared with those of the chosen ones; then the
/// fastest of each.
void sweep(Backend &backend, const std::string &file, bool rehearsal);

} // namespace tcc::gpu_attention
