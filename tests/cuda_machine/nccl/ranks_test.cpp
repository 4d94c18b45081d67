// The engine over NCCL, on the machine of stand-ins: processes exchange memory of their GPUs.
#include "tests/cuda_machine/nccl/gpu_ranks.h"

#include <chrono>
#include <cmath>
#include <thread>

namespace tcc::nccl {
namespace {

using runtime::Error;
using runtime::RankWork;
using runtime::cuda::Buffer;
using runtime::test::onRanks;

/// Numbers that say whose they are.
std::vector<float> numbers(int64_t rank, size_t count, float first = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = first + 1000.0f * float(rank) + float(i);
  return values;
}

struct Step {
  explicit Step(Gpu &gpu, int64_t rank, int64_t count)
      : gpu(gpu), rank(rank), count(count), own(gpu.floats(numbers(rank, 8))), together(gpu.floats(zeros(8))),
        parts(gpu.floats(numbers(rank, size_t(sum(rank + 1)), 500))), received(gpu.floats(zeros(1))),
        sums(gpu.floats(numbers(rank, 5))), shared(gpu.floats(numbers(rank, 3))) {}

  Gpu &gpu;
  int64_t rank, count;
  Buffer own, together, parts, received, sums, shared;

  std::vector<float> zeros(size_t each) const { return std::vector<float>(each * size_t(count)); }
  int64_t sum(int64_t each) const { return each * count; }

  /// Several collectives, of which the last ones start before the first is waited for. Rank r sends r + 1 numbers to
  /// each rank, so it receives 1, 2, … of them.
  void run() {
    std::vector<int64_t> sent(size_t(count), 4 * (rank + 1)), receivedBytes;
    for (int64_t other = 0; other < count; ++other)
      receivedBytes.push_back(4 * (other + 1));
    const RankWork first = started(gpu.ranks->allGather(Gpu::at(own), Gpu::at(together), 32));
    const RankWork second = started(gpu.ranks->allToAll(Gpu::at(parts), sent, Gpu::at(received), receivedBytes));
    const RankWork third = started(gpu.ranks->allReduce(reinterpret_cast<float *>(Gpu::at(sums)), 5));
    expectSuccess(gpu.ranks->wait(first));
    const RankWork fourth = started(gpu.ranks->broadcast(Gpu::at(shared), 12, count - 1));
    for (const RankWork work : {second, third, fourth})
      expectSuccess(gpu.ranks->wait(work));
  }

  void expectResults(float reductions = 1) {
    std::vector<float> expected;
    for (int64_t other = 0; other < count; ++other)
      for (const float value : numbers(other, 8))
        expected.push_back(value);
    EXPECT_EQ(gpu.read(together), expected);
    expected.clear();
    for (int64_t other = 0; other < count; ++other)
      for (int64_t i = 0; i < other + 1; ++i)
        expected.push_back(500 + 1000.0f * float(other) + float(rank * (other + 1) + i));
    EXPECT_EQ(gpu.read(received), expected);
    EXPECT_EQ(gpu.read(shared), numbers(count - 1, 3));
    const std::vector<float> added = gpu.read(sums);
    const float ranksSum = 1000.0f * float(count * (count - 1) / 2);
    for (size_t i = 0; i < added.size(); ++i)
      EXPECT_EQ(added[i], (ranksSum + float(i) * float(count)) * reductions);
  }
};

void useReceived(Step &step) {
  step.received = step.gpu.floats(std::vector<float>(size_t(step.count * (step.count + 1) / 2)));
}

TEST(NcclRanks, haveAllBytesOnStreamsOfEveryKind) {
  for (const char *streams : {"late", "early", "random"})
    for (const char *nccl : {"polls=0", "polls=7"})
      for (const int64_t count : {2, 3})
        onRanks(count, [&](const Host &host) {
          useStandIns(streams, nccl);
          Gpu gpu(host);
          ASSERT_EQ(gpu.error, "");
          EXPECT_EQ(gpu.ranks->engine(), "NCCL 2.27.3");
          Step step(gpu, host->rank(), count);
          useReceived(step);
          step.run();
          expectSuccess(gpu.ranks->wait(started(gpu.ranks->barrier())));
          step.expectResults();
          gpu.ranks->finish();
          EXPECT_STREQ(tccMachineReport(), "");
        });
}

TEST(NcclRanks, areCapturedWithTheStep) {
  for (const char *streams : {"late", "early", "random"})
    onRanks(2, [&](const Host &host) {
      useStandIns(streams, "polls=3");
      Gpu gpu(host);
      ASSERT_EQ(gpu.error, "");
      Step step(gpu, host->rank(), 2);
      useReceived(step);
      step.run(); // libraries load what they need
      gpu.session.stream.synchronize();
      gpu.session.stream.beginCapture();
      step.run();
      const runtime::cuda::Graph graph = gpu.session.stream.endCapture();
      for (int launch = 0; launch < 3; ++launch)
        gpu.session.stream.launch(graph);
      step.expectResults(8); // each of the three further sums doubles it
      EXPECT_STREQ(tccMachineReport(), "");
    });
}

TEST(NcclRanks, leaveWhatARankDoesNotSendItself) {
  onRanks(3, [](const Host &host) {
    useStandIns();
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    const auto rank = size_t(host->rank());
    std::vector<int64_t> sent(3, 16);
    sent[rank] = 0;
    const Buffer parts = gpu.floats(numbers(host->rank(), 8)), received = gpu.floats(std::vector<float>(12, 7));
    expectSuccess(gpu.ranks->wait(
        started(gpu.ranks->allToAll(Gpu::at(parts), sent, Gpu::at(received), std::vector<int64_t>(3, 16)))));
    std::vector<float> expected;
    for (size_t other = 0; other < 3; ++other) // each sends its first four numbers to the lower of the other ranks
      for (const float value : numbers(int64_t(other), 4, other < rank ? 4 * float(rank - 1) : 4 * float(rank)))
        expected.push_back(other == rank ? 7 : value);
    EXPECT_EQ(gpu.read(received), expected);
    EXPECT_STREQ(tccMachineReport(), "");
  });
}

TEST(NcclRanks, sayWhetherACollectiveIsOver) {
  onRanks(2, [](const Host &host) {
    useStandIns();
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    const Buffer own = gpu.floats(numbers(host->rank(), 8)), together = gpu.floats(std::vector<float>(16));
    const RankWork work = started(gpu.ranks->allGather(Gpu::at(own), Gpu::at(together), 32));
    for (int questions = 0;; ++questions) {
      const auto over = gpu.ranks->isOver(work);
      ASSERT_TRUE(over) << over.error().message();
      if (*over)
        break;
      ASSERT_LT(questions, 100);
    }
    EXPECT_EQ(gpu.read(together)[8], 1000);
  });
}

// --- What the stand-in finds -----------------------------------------------------------------------------------------

/// What both ranks' machines say after `act`, which must lose the device.
void expectFinding(const std::string &text, const std::function<void(Gpu &, int64_t rank)> &act,
                   const std::string &streams = "late") {
  onRanks(2, [&](const Host &host) {
    useStandIns(streams, "seconds=5");
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    try {
      act(gpu, host->rank());
      gpu.session.stream.synchronize();
      ADD_FAILURE() << "nothing is found";
    } catch (const runtime::CudaError &) { // of the device that the finding has ended
    }
    EXPECT_NE(std::string(tccMachineReport()).find(text), std::string::npos) << tccMachineReport();
  });
}

TEST(NcclMachine, findsRanksThatComeToDifferentThings) {
  expectFinding("NCCL operation 1: rank ", [](Gpu &gpu, int64_t rank) { // another number of elements
    static Buffer memory = gpu.floats(std::vector<float>(64));
    expectSuccess(gpu.ranks->wait(started(gpu.ranks->allGather(Gpu::at(memory), Gpu::at(memory, 128), 32 + 4 * rank))));
  });
  expectFinding("has all-reduce of 8 float32 by op 0, rank 1 all-gather of 32 uint8", [](Gpu &gpu, int64_t rank) {
    static Buffer memory = gpu.floats(std::vector<float>(64));
    expectSuccess(
        gpu.ranks->wait(started(rank == 0 ? gpu.ranks->allReduce(reinterpret_cast<float *>(Gpu::at(memory)), 8)
                                          : gpu.ranks->allGather(Gpu::at(memory), Gpu::at(memory, 128), 32))));
    if (rank == 1) // so that both reports have the text of rank 0
      tccMachineNote("has all-reduce of 8 float32 by op 0, rank 1 all-gather of 32 uint8");
  });
  expectFinding("receive of 4 uint8", [](Gpu &gpu, int64_t rank) { // a send that is longer than its receive
    static Buffer memory = gpu.floats(std::vector<float>(64));
    const std::vector<int64_t> sent{4, rank == 0 ? 8 : 4}, received{4, 4};
    expectSuccess(gpu.ranks->wait(started(gpu.ranks->allToAll(Gpu::at(memory), sent, Gpu::at(memory, 128), received))));
  });
}

TEST(NcclMachine, findsWhatARankSendsItselfAndDoesNotReceive) {
  expectFinding("1 sends and 0 receives", [](Gpu &gpu, int64_t rank) {
    static Buffer memory = gpu.floats(std::vector<float>(64));
    const std::vector<int64_t> sent(2, 4);
    std::vector<int64_t> received(2, 4);
    received[size_t(rank)] = 0;
    expectSuccess(gpu.ranks->wait(started(gpu.ranks->allToAll(Gpu::at(memory), sent, Gpu::at(memory, 128), received))));
  });
}

TEST(NcclMachine, findsCollectivesInAnotherOrder) {
  expectFinding("NCCL operation 1: rank ", [](Gpu &gpu, int64_t rank) {
    static Buffer memory = gpu.floats(std::vector<float>(256));
    for (const int64_t which : {rank, 1 - rank})
      expectSuccess(gpu.ranks->wait(started(gpu.ranks->allGather(
          Gpu::at(memory, 256 * size_t(which)), Gpu::at(memory, 512 + 128 * size_t(which)), 16 + 16 * which))));
  });
}

TEST(NcclMachine, findsACaptureOnSomeRanksOnly) {
  static Buffer memory;
  const auto step = [](Gpu &gpu) {
    expectSuccess(gpu.ranks->wait(started(gpu.ranks->allGather(Gpu::at(memory), Gpu::at(memory, 128), 32))));
  };
  const auto captured = [step](Gpu &gpu) {
    gpu.session.stream.beginCapture();
    step(gpu);
    static std::vector<runtime::cuda::Graph> graphs;
    graphs.push_back(gpu.session.stream.endCapture());
    return &graphs.back();
  };
  expectFinding("runs it in a graph", [=](Gpu &gpu, int64_t rank) {
    memory = gpu.floats(std::vector<float>(64));
    if (rank == 0)
      gpu.session.stream.launch(*captured(gpu));
    else
      step(gpu);
  });
  expectFinding("has captured more than the other", [=](Gpu &gpu, int64_t rank) {
    memory = gpu.floats(std::vector<float>(64));
    const auto *graph = captured(gpu);
    if (rank == 1)
      graph = captured(gpu);
    gpu.session.stream.launch(*graph);
  });
}

TEST(NcclMachine, findsWhatIsWrittenInFlight) {
  // In a graph the stand-in runs the last piece of work that is ready: the fill, which has no edge to the collective.
  for (const size_t place : {0, 128})
    expectFinding(
        place == 0 ? "sends was written in flight" : "writes was written in flight",
        [=](Gpu &gpu, int64_t) {
          static Buffer memory = gpu.floats(std::vector<float>(64));
          gpu.session.stream.beginCapture();
          const RankWork work = started(gpu.ranks->allGather(Gpu::at(memory), Gpu::at(memory, 128), 32));
          gpu.session.stream.setBytes(memory.address() + place, 7, 4); // too early: the wait comes after it
          expectSuccess(gpu.ranks->wait(work));
          static const runtime::cuda::Graph graph = gpu.session.stream.endCapture();
          // So that in one of some launches the fill comes between the collective's beginning and its end.
          for (int launch = 0; launch < 20; ++launch)
            gpu.session.stream.launch(graph);
        },
        "random");
}

TEST(NcclMachine, showsAResultThatIsReadEarly) {
  onRanks(2, [](const Host &host) {
    useStandIns("late");
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    const Buffer own = gpu.floats(numbers(host->rank(), 8)), together = gpu.floats(std::vector<float>(16, -1));
    const RankWork work = started(gpu.ranks->allGather(Gpu::at(own), Gpu::at(together), 32));
    EXPECT_EQ(gpu.read(together)[8], -1) << "without a wait nothing has come";
    expectSuccess(gpu.ranks->wait(work));
    EXPECT_EQ(gpu.read(together)[8], 1000);
  });
}

// --- Faults ----------------------------------------------------------------------------------------------------------

/// What joining says, on all ranks or on one of them.
std::vector<std::string> joinErrors(const std::function<void(int64_t rank)> &prepare, int ordinal = -1,
                                    const std::string &expected = "") {
  onRanks(2, [&](const Host &host) {
    useStandIns();
    setenv("TCC_NCCL_LIMIT", "2", 1);
    prepare(host->rank());
    const Gpu gpu(host, ordinal);
    EXPECT_NE(gpu.error.find(expected), std::string::npos) << "rank " << host->rank() << ": " << gpu.error;
    EXPECT_NE(gpu.error, "");
  });
  return {};
}

TEST(NcclFaults, comeToAllRanksWhenTheyJoin) {
  joinErrors([](int64_t) { setenv("TCC_NCCL_MACHINE", "version=21403", 1); }, -1,
             "is NCCL 2.14.3; 2.18.0 or later is needed");
  joinErrors([](int64_t) { setenv("TCC_NCCL", "/nowhere/libnccl.so.2", 1); }, -1, "could not be opened");
  joinErrors(
      [](int64_t rank) {
        if (rank == 1)
          setenv("TCC_NCCL", "/nowhere/libnccl.so.2", 1);
      },
      -1, "NCCL");
  joinErrors(
      [](int64_t rank) {
        if (rank == 1)
          setenv("TCC_NCCL_MACHINE", "version=22900", 1);
      },
      -1, "rank 1 has NCCL 2.29.0, and rank 0 2.27.3; all ranks have the same");
  joinErrors([](int64_t) { setenv("TCC_CUDA_MACHINE_FAIL", "ncclGetUniqueId:1:2", 1); }, -1,
             "making an id for the ranks failed on rank 0: NCCL status 2 (unhandled system error)");
  joinErrors([](int64_t) { setenv("TCC_CUDA_MACHINE_FAIL", "ncclCommInitRankConfig:1:3", 1); }, -1,
             "joining the ranks of rank ");
  joinErrors([](int64_t) {}, /*ordinal=*/0, "Duplicate GPU detected");
  joinErrors(
      [](int64_t) {
        setenv("TCC_NCCL_MACHINE", "stuck=1", 1);
        setenv("TCC_NCCL_LIMIT", "1", 1);
      },
      -1, "has been in progress for 1 s, which is the limit (TCC_NCCL_LIMIT)");
}

/// What a step says on each rank, by a fault that `words` plant: texts of TCC_NCCL_MACHINE, or calls that fail. The
/// ranks begin each step together, after `pause`.
void expectStepError(const std::string &words, const std::string &failing, const std::string &expected,
                     std::chrono::milliseconds pause = {}) {
  onRanks(2, [&](const Host &host) {
    useStandIns("late", words);
    setenv("TCC_NCCL_LIMIT", words.starts_with("stuck") ? "1" : "2", 1);
    setenv("TCC_CUDA_MACHINE_FAIL", failing.c_str(), 1);
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    const Buffer own = gpu.floats(numbers(host->rank(), 8)), together = gpu.floats(std::vector<float>(16, -1));
    Error error = Error::success();
    for (int step = 0; step < 3 && !error; ++step) {
      ASSERT_TRUE(host->barrier()) << "the ranks meet an error in the same step";
      std::this_thread::sleep_for(pause);
      const auto work = gpu.ranks->allGather(Gpu::at(own), Gpu::at(together), 32);
      error = work ? gpu.ranks->wait(*work) : work.error();
      if (!error)
        error = gpu.session.attempt([&] { gpu.session.wait(); });
    }
    EXPECT_NE(error.message().find(expected), std::string::npos) << "rank " << host->rank() << ": " << error.message();
    gpu.ranks->finish(); // which waits for nobody
  });
}

TEST(NcclFaults, endAStepWithOneError) {
  expectStepError("", "ncclAllGather:2:3", "all_gather of rank ");
  expectStepError("", "ncclGroupStart:2:1", "failed: NCCL status 1 (unhandled cuda error)");
  expectStepError("", "ncclGroupEnd:2:5", "failed: NCCL status 5 (invalid usage)");
  expectStepError("stuck=3", "", "has been in progress for 1 s");
  // An error that no call tells, while the device waits: the watcher lets it go. It may see the error before the next
  // step's call does, as it must where that call comes late.
  const std::string remote = "(remote process exited or there was a network error)";
  expectStepError("hang=2,broken=1", "", remote);
  expectStepError("broken=1", "", remote, std::chrono::milliseconds(500));
}

TEST(NcclFaults, ofOneRankReachTheOthers) {
  onRanks(2, [](const Host &host) {
    useStandIns("late", "rank=1,hang=1");
    Gpu gpu(host);
    ASSERT_EQ(gpu.error, "");
    const Buffer own = gpu.floats(numbers(host->rank(), 8)), together = gpu.floats(std::vector<float>(16, -1));
    const RankWork work = started(gpu.ranks->allGather(Gpu::at(own), Gpu::at(together), 32));
    expectSuccess(gpu.ranks->wait(work));
    if (host->rank() == 1) { // it gives up, as a rank does whose host has met an error
      gpu.session.close("a test");
      gpu.ranks->finish();
      return;
    }
    const Error error = gpu.session.attempt([&] { gpu.session.wait(); });
    EXPECT_NE(error.message().find("an exchange of rank 0 with the other ranks failed: NCCL status 6"),
              std::string::npos)
        << error.message();
  });
}

} // namespace
} // namespace tcc::nccl
