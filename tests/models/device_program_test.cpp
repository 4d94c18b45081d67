// train_gpt --device on the machine of stand-ins: the CPU's losses, bits that depend on nothing but the run, runs that
// are stopped or killed and go on, GPUs that do not work.
#include "frontend/safetensors.h"
#include "test_files.h"
#include "tests/cuda_machine/machine_state.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <thread>

namespace tcc::models {
namespace {

using Json = nlohmann::json;

class TrainOnDevice : public testing::Test {
protected:
  TemporaryFolder folder{memoryFolder()};

  TrainOnDevice() { folder.write("text", easyText(300)); }

  /// A process of train_gpt that sees the stand-ins, with `environment` added; its messages go to the file "messages".
  pid_t start(const std::string &name, const std::string &more, const std::string &environment = "") {
    const std::string command =
        "cd '" + folder.path("") +
        "' && exec env -u XDG_CACHE_HOME HOME= TCC_CUDA_DRIVER=" TCC_MACHINE_CUDA " TCC_NVRTC=" TCC_MACHINE_NVRTC
        " TCC_CUBLASLT=" TCC_MACHINE_CUBLASLT " TCC_CUDA_MACHINE=late " +
        environment + " '" TCC_TRAIN_GPT "' --threads=1 " +
        (more.find("--generate") != std::string::npos
             ? ""
             : "--data text --layers=1 --heads=2 --width=8 --seq=8 --batch=2 --json=" + name + ".jsonl ") +
        more;
    std::filesystem::remove(folder.path("messages"));
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::creat(folder.path("messages").c_str(), 0600), STDERR_FILENO);
      ::dup2(::creat(folder.path("output").c_str(), 0600), STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }

  int run(const std::string &name, const std::string &more, const std::string &environment = "") {
    return wait(start(name, more, environment));
  }

  std::string messages() const { return readAll(folder.path("messages")); }

  std::vector<Json> log(const std::string &name) const { return jsonLines(readAll(folder.path(name + ".jsonl"))); }

  std::vector<double> losses(const std::string &name) const {
    std::vector<double> values;
    for (const Json &line : log(name))
      if (line.contains("step"))
        values.push_back(line["loss"]);
    return values;
  }

  /// Until the log has so many steps, or the process has ended.
  void waitForSteps(pid_t child, const std::string &name, int steps) {
    siginfo_t info = {};
    const auto count = [&] {
      const std::string text = readAll(folder.path(name + ".jsonl"));
      return std::count(text.begin(), text.end(), '\n');
    };
    while (count() < steps && info.si_pid == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT);
    }
  }

  void expectSameFile(const std::string &a, const std::string &b) {
    EXPECT_TRUE(readAll(folder.path(a)) == readAll(folder.path(b))) << a << " and " << b;
  }
};

const std::string everything = "--steps=6 --lr=1e-2 --eval-every=3 --eval-batches=2 ";

TEST_F(TrainOnDevice, anEstimateCountsHoursOfTheGpu) {
  ASSERT_EQ(run("estimate", "--device=cuda --estimate --minutes=30 --price-per-hour=4"), 0) << messages();
  expectContains(readAll(folder.path("output")), "30 minutes: 0.500 GPU-hours, 2.00 dollars at 4 an hour\n");
}

TEST_F(TrainOnDevice, theWholeTrainerHasTheCpusLosses) {
  ASSERT_EQ(run("cpu", everything + "--device=cpu --save=cpu --sample=4"), 0) << messages();
  expectContains(messages(), "device: the CPU\n");
  ASSERT_EQ(run("gpu", everything + "--save=gpu --sample=4 --hash-every=2 --checkpoint=kept --dump-grads=grads"), 0)
      << messages();
  expectContains(messages(), "device: cuda:0 (Emulated H200), sm_90a\n");
  const std::vector<Json> cpu = log("cpu"), gpu = log("gpu");
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i + 1 < cpu.size(); ++i) {
    EXPECT_EQ(gpu[i]["step"], i);
    for (const char *what : {"loss", "norm", "val_loss"}) {
      ASSERT_EQ(gpu[i].contains(what), cpu[i].contains(what)) << what;
      if (cpu[i].contains(what)) {
        EXPECT_NEAR(gpu[i][what].get<double>(), cpu[i][what].get<double>(), 1e-4) << what << " of step " << i;
      }
    }
    EXPECT_EQ(gpu[i].contains("parameters"), i % 2 == 1 || i == 5);
  }
  EXPECT_EQ(gpu.back()["target"], "cuda");
  const SafetensorsFile ours(folder.path("gpu/model.safetensors")), theirs(folder.path("cpu/model.safetensors"));
  for (const TensorEntry &entry : theirs.tensors()) {
    ASSERT_TRUE(ours.find(entry.name)) << entry.name;
    std::vector<float> expected(theirs.bytes(entry).size() / 4), seen(expected.size());
    theirs.readFloats(entry, expected);
    ours.readFloats(*ours.find(entry.name), seen);
    for (size_t i = 0; i < seen.size(); ++i)
      ASSERT_NEAR(seen[i], expected[i], 2e-3) << entry.name << " " << i;
  }
  expectSameFile("gpu/model.safetensors", "kept/step-000000006/model.safetensors");

  // A loss that is read while the next step runs, and streams that run early, change nothing.
  ASSERT_EQ(run("beside", "--steps=6 --lr=1e-2 --eval-every=6 --eval-batches=2 --save=beside",
                "TCC_CUDA_MACHINE=early,reverse"),
            0)
      << messages();
  EXPECT_EQ(losses("beside"), losses("gpu"));
  expectSameFile("gpu/model.safetensors", "beside/model.safetensors");

  // The trained weights give the same text on both.
  ASSERT_EQ(run("", "--init gpu --generate=6 --temperature=0 --device=cpu"), 0) << messages();
  const std::string text = readAll(folder.path("output"));
  ASSERT_EQ(run("", "--init gpu --generate=6 --temperature=0"), 0) << messages();
  EXPECT_EQ(readAll(folder.path("output")), text);
}

TEST_F(TrainOnDevice, theFastestProductsAreThoseOfTheDevice) {
  const std::string said = "--dtype=auto is bf16, which cuda:sm_90a multiplies fastest\n";
  ASSERT_EQ(run("auto", "--steps=1 --dtype=auto --save=auto"), 0) << messages();
  expectContains(messages(), said);
  EXPECT_EQ(log("auto").back()["dtype"], "bf16");
  ASSERT_EQ(run("", "--init auto --generate=1 --dtype=auto"), 0) << messages();
  expectContains(messages(), said);
  ASSERT_EQ(run("cpu", "--steps=1 --dtype=auto --device=cpu"), 0) << messages();
  EXPECT_EQ(messages().find("cuda"), std::string::npos) << messages();
}

TEST_F(TrainOnDevice, productsOfTf32AreRoundedAndNoStepHasTheCodeOfAnother) {
  const std::string cached = "--steps=4 --cache-dir='" + folder.path("cache") + "' --dtype=";
  ASSERT_EQ(run("f32", cached + "f32"), 0) << messages();
  ASSERT_EQ(run("tf32", cached + "tf32"), 0) << messages();
  EXPECT_EQ(messages().find("warning"), std::string::npos) << messages();
  EXPECT_EQ(log("tf32").back()["dtype"], "tf32");
  const std::vector<double> whole = losses("f32"), rounded = losses("tf32");
  EXPECT_NE(rounded, whole);
  ASSERT_EQ(rounded.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(rounded[i], whole[i], 2e-3 * whole[i]) << i;
}

TEST_F(TrainOnDevice, stepsWithoutAGraphHaveTheSameBits) {
  const auto captures = [&](const std::string &name) {
    return Json::parse(readAll(folder.path(name)))["captures"].get<int>();
  };
  ASSERT_EQ(run("graph", "--steps=4", "TCC_CUDA_MACHINE_COUNTERS=with"), 0) << messages();
  ASSERT_EQ(run("calls", "--steps=4 -fno-cuda-graph", "TCC_CUDA_MACHINE_COUNTERS=without"), 0) << messages();
  // The measurement of the machine's limit is a program of its own, which is captured in both.
  EXPECT_EQ(captures("with"), captures("without") + 1);
  EXPECT_EQ(losses("calls"), losses("graph"));
}

TEST_F(TrainOnDevice, statesOfBf16AreRoundedByTheSameBits) {
  const std::string narrow = "--steps=8 --lr=1e-2 --params=bf16 ";
  ASSERT_EQ(run("cpu", narrow + "--device=cpu"), 0) << messages();
  ASSERT_EQ(run("gpu", narrow + "--checkpoint=whole"), 0) << messages();
  const std::vector<double> here = losses("cpu"), there = losses("gpu");
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) // a value near the border of two neighbours may go to the other one
    EXPECT_NEAR(there[i], here[i], 5e-3) << i;
  ASSERT_EQ(run("early", narrow + "--checkpoint=parts", "TCC_CUDA_MACHINE=early,reverse"), 0) << messages();
  expectSameFile("whole/step-000000008/model.safetensors", "parts/step-000000008/model.safetensors");
  expectSameFile("whole/step-000000008/optimizer.safetensors", "parts/step-000000008/optimizer.safetensors");
}

TEST_F(TrainOnDevice, runsThatAreKilledOrStoppedGoOnWithTheSameBits) {
  const std::string common = "--steps=8 --checkpoint-every=2 --keep=9 --checkpoint=";
  ASSERT_EQ(run("whole", common + "whole"), 0) << messages();
  EXPECT_EQ(log("whole").back()["planned_bytes"], log("whole").back()["peak_bytes"]);
  pid_t child = start("parts", common + "parts");
  waitForSteps(child, "parts", 3);
  ::kill(child, SIGKILL);
  ASSERT_EQ(wait(child), -SIGKILL) << messages();
  child = start("parts", common + "parts --resume");
  waitForSteps(child, "parts", 5);
  ::kill(child, SIGINT);
  ASSERT_EQ(wait(child), 130) << messages();
  expectContains(messages(), "warning: stopped by SIGINT after ");
  expectContains(messages(), "the same command with --resume goes on");
  ASSERT_EQ(run("parts", common + "parts --resume"), 0) << messages();
  for (const char *file : {"model.safetensors", "optimizer.safetensors", "run.json"})
    expectSameFile(std::string("whole/step-000000008/") + file, std::string("parts/step-000000008/") + file);
  EXPECT_EQ(losses("parts"), losses("whole"));
  // The other device goes on too, and says that it is another.
  ASSERT_EQ(run("parts", "--steps=9 --checkpoint=parts --resume --device=cpu"), 0) << messages();
  expectContains(messages(), "note: --device is cpu from here on, the checkpoint's run had cuda");
}

TEST_F(TrainOnDevice, aGpuThatDoesNotWorkIsSaidInOneLineAndTheCpuGoesOn) {
  ASSERT_EQ(run("cpu", "--steps=2 --device=cpu --quiet"), 0) << messages();
  for (const auto &[environment, why] :
       {std::pair{"TCC_CUDA_MACHINE=driver=11080", "the CUDA driver is for CUDA 11.8"},
        {"TCC_CUDA_MACHINE=devices=0", "CUDA_ERROR_NO_DEVICE"},
        {"TCC_NVRTC=/nonexistent", "NVRTC (NVIDIA's run-time compiler) could not be opened"},
        {"TCC_CUBLASLT=/nonexistent", "cuBLASLt (NVIDIA's matrix products) could not be opened"},
        {"TCC_CUDA_MACHINE=memory=20000", "CUDA_ERROR_OUT_OF_MEMORY"},
        {"TCC_CUDA_MACHINE_FAIL=cuGraphLaunch:1:700", "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {"TCC_CUBLASLT_FAIL=cublasLtMatmul=13@1", "execution failed"}}) {
    ASSERT_EQ(run("auto", "--steps=2 ", environment), 0) << messages();
    const std::string said = messages();
    EXPECT_TRUE(said.starts_with("device: the CPU; the GPU cannot be used: ")) << said;
    expectContains(said.substr(0, said.find('\n')), why);
    EXPECT_EQ(losses("auto"), losses("cpu"));
    EXPECT_EQ(run("asked", "--steps=2 --device=cuda", environment), 1);
    EXPECT_TRUE(messages().starts_with("error: --device=cuda: ")) << messages();
    expectContains(messages(), why);
  }
  ASSERT_EQ(run("none", "--steps=2", "TCC_CUDA_DRIVER=/nonexistent"), 0) << messages();
  expectContains(messages(), "device: the CPU; there is no driver of an NVIDIA GPU\n");
  EXPECT_EQ(run("second", "--steps=2 --device=cuda:1"), 1);
  expectContains(messages(), "CUDA device 1 asked for, but the driver shows 1");
  EXPECT_EQ(run("second", "--steps=2 --device=cuda:1", "TCC_CUDA_MACHINE=devices=2"), 0) << messages();
  expectContains(messages(), "device: cuda:1 (");
  EXPECT_EQ(run("wrong", "--device=gpu"), 2);
  expectContains(messages(), "`gpu` is given, one of auto, cpu, cuda, cuda:N is expected");
}

TEST_F(TrainOnDevice, aDeviceThatIsLostEndsTheRunWithWhatIsLostAndWhatIsKept) {
  const std::string common = "--steps=8 --checkpoint-every=2 --keep=9 --checkpoint=";
  ASSERT_EQ(run("whole", common + "whole"), 0) << messages();
  // Two launches of a graph are the self-test's.
  EXPECT_EQ(run("lost", common + "lost", "TCC_CUDA_MACHINE_FAIL=cuGraphLaunch:8:700"), 1) << messages();
  const std::string said = messages();
  expectContains(said, "is closed after: ");
  expectContains(said, "lost: the values of states `w");
  for (const char *state : {"`wte.weight`, ", "`wpe.weight`, "})
    expectContains(said, state);
  expectContains(said, "goes on after step ");
  ASSERT_EQ(run("lost", common + "lost --resume"), 0) << messages();
  expectSameFile("whole/step-000000008/model.safetensors", "lost/step-000000008/model.safetensors");
}

} // namespace
} // namespace tcc::models
