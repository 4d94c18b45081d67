// Ranks on GPUs of stand-ins train as one does: processes with a device each, which exchange by NCCL's stand-in, have
// the bits of one process with the same lanes, whatever the streams do.
#include "frontend/state_parts.h"
#include "runtime/device/cuda/step_device.h"
#include "test_files.h"
#include "tests/cuda_machine/nccl/gpu_ranks.h"
#include "tests/models/training_step.h"
#include "tests/state_bytes.h"

namespace tcc::models {
namespace {

using nccl::Host;
using runtime::test::onRanks;

constexpr int64_t lanes = 4, rows = 8, sequence = 8, vocabulary = 48;

struct DeviceRun {
  int64_t ranks = 1;
  std::string streams = "late", nccl = "";
  int64_t bucketBytes = 1 << 10;
  bool isCaptured = true, fastReduce = false;
  int zero = 0;
};

/// Losses, norms and weights of a small GPT after some steps of this rank, as bytes.
std::string train(const Host &host, const DeviceRun &run, const std::string &cache) {
  nccl::useStandIns(run.streams, run.nccl);
  setenv("TCC_CACHE_DIR", cache.c_str(), 1); // ranks and runs have kernels in common
  const auto device = runtime::cuda::openStepDevice({.ordinal = int(host->rank()), .capture = run.isCaptured});
  if (!device)
    throw Error(device.error().message());
  Model model(Gpt2Config{.layers = 1, .heads = 2, .width = 16, .sequence = sequence, .vocab = vocabulary});
  model.initialize(7);
  optim::Adamw optimizer(model.parameters(), {.clip = 0.5});
  optimizer.setNormOrder(optim::NormOrder::rows);
  FunctionOptions options;
  options.device = *device;
  options.threads = 1;
  options.bucketBytes = run.bucketBytes;
  options.fastReduce = run.fastReduce;
  options.zero = run.zero;
  options.report = [](std::string_view) {};
  if (host->count() > 1)
    options.ranks = host;
  Function step = compile(
      "training_step",
      [&](Tensor tokens, Tensor targets, Tensor lr, Tensor number) {
        const ModelStep results = trainingStep(model, optimizer, tokens, targets, lr, number, 1, {}, lanes);
        return std::pair{results.loss, results.norm};
      },
      options);
  std::string bytes;
  for (int i = 0; i < 5; ++i) {
    Array tokens({rows, sequence}, DType::i32), targets({rows, sequence}, DType::i32);
    for (int64_t j = 0; j < rows * sequence; ++j) {
      tokens.data<int32_t>()[size_t(j)] = int32_t((i * 31 + j * j * 7) % vocabulary);
      targets.data<int32_t>()[size_t(j)] = int32_t((i * 31 + (j + 1) * (j + 1) * 7) % vocabulary);
    }
    for (const Array &result : step(tokens, targets, Array(1e-2f), Array(float(i + 1))))
      bytes.append(static_cast<const char *>(result.rawForReading()), size_t(result.bytes()));
  }
  makeWhole(model.parameters(), host.get(), WholeOn::allRanks);
  EXPECT_STREQ(tccMachineReport(), "");
  return bytes + test::bytesOf(model.parameters());
}

class RanksOnDevices : public testing::Test {
protected:
  TemporaryFolder folder{memoryFolder()};

  /// What each rank of a run has in the end.
  std::vector<std::string> bitsOf(const DeviceRun &run) {
    onRanks(run.ranks, [&](const Host &host) {
      folder.write("rank" + std::to_string(host->rank()), train(host, run, folder.path("cache")));
    });
    std::vector<std::string> bits;
    for (int64_t rank = 0; rank < run.ranks && !HasFailure(); ++rank)
      bits.push_back(readAll(folder.path("rank" + std::to_string(rank))));
    return bits;
  }

  void expectBitsOfOne(const std::vector<DeviceRun> &runs) {
    const std::vector<std::string> one = bitsOf({});
    ASSERT_EQ(one.size(), 1u);
    ASSERT_GT(one[0].size(), 5u * 8);
    for (const DeviceRun &run : runs) {
      const std::vector<std::string> all = bitsOf(run);
      EXPECT_EQ(all.size(), size_t(run.ranks));
      for (const std::string &bits : all)
        EXPECT_TRUE(bits == one[0]) << run.ranks << " ranks on " << run.streams << " streams, --zero=" << run.zero;
    }
  }
};

TEST_F(RanksOnDevices, haveTheBitsOfOneProcess) {
  std::vector<DeviceRun> runs{{.ranks = 2, .streams = "early", .nccl = "polls=0", .bucketBytes = 25 << 20},
                              {.ranks = 2, .streams = "random,seed=4", .isCaptured = false, .zero = 2},
                              {.ranks = 4, .streams = "late"},
                              {.ranks = 4, .streams = "early", .zero = 2},
                              {.ranks = 4, .streams = "late", .zero = 3}};
  if (std::getenv("TCC_FULL"))
    runs.insert(runs.end(), {{.ranks = 2, .streams = "late"},
                             {.ranks = 2, .streams = "early", .nccl = "polls=0", .bucketBytes = 25 << 20, .zero = 1},
                             {.ranks = 2, .streams = "random,seed=3", .nccl = "polls=5", .bucketBytes = 1},
                             {.ranks = 4, .streams = "random,seed=5", .zero = 1},
                             {.ranks = 2, .streams = "early", .nccl = "polls=0", .zero = 3},
                             {.ranks = 2, .streams = "random,seed=6", .bucketBytes = 1, .isCaptured = false, .zero = 3},
                             {.ranks = 4, .streams = "random,seed=8", .nccl = "polls=5", .zero = 3}});
  expectBitsOfOne(runs);
}

} // namespace
} // namespace tcc::models
