// train_gpt as a program: runs that are killed or stopped and go on end with the bytes of one that never stopped.
#include "models/counter_random.h"
#include "test_files.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>

namespace tcc::models {
namespace {

namespace fs = std::filesystem;

/// Kills of one run; TCC_KILLS in the environment sets another number.
int killCount() {
  const char *asked = std::getenv("TCC_KILLS");
  return asked ? std::atoi(asked) : 12;
}

class ResumeTest : public testing::Test {
protected:
  TemporaryFolder folder{memoryFolder()};

  ResumeTest() { folder.write("text", easyText(200)); }

  /// A process of train_gpt on a small model; its messages go to the file "messages".
  pid_t start(const std::string &name, std::vector<std::string> more) {
    std::vector<std::string> arguments = {TCC_TRAIN_GPT,
                                          "--data",
                                          folder.path("text"),
                                          "--threads=1",
                                          "--layers=1",
                                          "--heads=2",
                                          "--width=8",
                                          "--seq=8",
                                          "--batch=2",
                                          "--steps=300",
                                          "--checkpoint-every=2",
                                          "--eval-every=50",
                                          "--checkpoint",
                                          folder.path(name),
                                          "--json",
                                          folder.path(name + ".jsonl"),
                                          "--save",
                                          folder.path(name + "-saved")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    fs::remove(folder.path("messages")); // the last process's
    const pid_t child = ::fork();
    if (child == 0) {
      const int messages = ::open(folder.path("messages").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(messages, 2);
      std::vector<char *> list;
      for (std::string &argument : arguments)
        list.push_back(argument.data());
      list.push_back(nullptr);
      ::execv(list[0], list.data());
      ::_exit(127);
    }
    return child;
  }

  int run(const std::string &name, std::vector<std::string> more = {}) { return wait(start(name, std::move(more))); }

  bool hasCheckpoint(const std::string &name) const {
    std::error_code error;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder.path(name), error))
      if (entry.path().filename().string().starts_with("step-"))
        return true;
    return false;
  }

  std::vector<std::string> files(const std::string &name) const {
    std::vector<std::string> paths;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder.path(name)))
      if (entry.is_regular_file())
        paths.push_back(fs::relative(entry.path(), folder.path(name)).string());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  void expectSameFiles(const std::string &a, const std::string &b) {
    ASSERT_EQ(files(a), files(b));
    for (const std::string &file : files(a))
      EXPECT_TRUE(readAll(folder.path(a + "/" + file)) == readAll(folder.path(b + "/" + file))) << file;
  }

  /// Until the process has said a step, or has ended.
  void waitForAStep(pid_t child) {
    siginfo_t info = {};
    while (messages().find(" tokens/s") == std::string::npos && info.si_pid == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT);
    }
  }

  std::string messages() const { return readAll(folder.path("messages")); }
};

TEST_F(ResumeTest, killedAtRandomMomentsItEndsWithTheSameBytes) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run("whole"), 0) << messages();
  // Up to 0.4 s, and no longer than leaves most runs unfinished on this machine.
  const double longest =
      std::min(0.4, 0.5 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  int killed = 0, wentOn = 0, ends = 0;
  const auto isEnough = [&] { return killed >= killCount() && wentOn > killed / 4; };
  // Two moments in three lie after the process's first step, the others may lie before it.
  for (uint64_t attempt = 0; !isEnough() && killed < 3 * killCount(); ++attempt) {
    const bool resumes = hasCheckpoint("killed");
    const pid_t child = start("killed", resumes ? std::vector<std::string>{"--resume"} : std::vector<std::string>{});
    const auto moment = std::chrono::duration<double>(longest * unitBits(randomBits(11, 1, attempt)));
    if (attempt % 3 != 0)
      waitForAStep(child);
    std::this_thread::sleep_for(moment);
    ::kill(child, SIGKILL);
    const int status = wait(child);
    if (status == -SIGKILL) {
      ++killed;
      wentOn += resumes;
      continue;
    }
    ASSERT_EQ(status, 0) << messages(); // it was quicker
    expectSameFiles("whole", "killed");
    expectSameFiles("whole-saved", "killed-saved");
    if (HasFailure())
      return;
    fs::remove_all(folder.path("killed"));
    fs::remove_all(folder.path("killed-saved"));
    ++ends;
  }
  ASSERT_EQ(run("killed", hasCheckpoint("killed") ? std::vector<std::string>{"--resume"} : std::vector<std::string>{}),
            0)
      << messages();
  expectSameFiles("whole", "killed");
  expectSameFiles("whole-saved", "killed-saved");
  EXPECT_GT(wentOn, killed / 4) << "kills that hit a run which had gone on";
  // The log of a run in pieces has each step once.
  std::ifstream log(folder.path("killed.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(log, line);)
    if (line.starts_with("{\"step\":")) {
      EXPECT_TRUE(line.starts_with("{\"step\":" + std::to_string(steps++) + ",")) << line;
    }
  EXPECT_EQ(steps, 300);
  std::printf("%d kills, %d of runs that had gone on, %d runs to their end\n", killed, wentOn, ends + 1);
}

TEST_F(ResumeTest, aSignalEndsTheRunAfterTheStepWithACheckpoint) {
  const std::vector<std::string> longer = {"--steps=6000", "--checkpoint-every=1500", "--eval-every=100"};
  std::vector<std::string> resumed = longer;
  resumed.push_back("--resume");
  ASSERT_EQ(run("whole", longer), 0) << messages();
  int resumes = 0;
  for (const auto &[signal, name, status] : {std::tuple(SIGTERM, "SIGTERM", 143), std::tuple(SIGINT, "SIGINT", 130)}) {
    const pid_t child = start("stopped", resumes++ ? resumed : longer);
    // Once a step has been logged, the loop runs.
    waitForAStep(child);
    ::kill(child, signal);
    ASSERT_EQ(wait(child), status) << messages();
    const std::string said = messages(), last = said.substr(said.rfind("warning: "));
    expectContains(last, std::string("warning: stopped by ") + name + " after ");
    expectContains(last, "the same command with --resume goes on");
    EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 1) << "it is the last line";
  }
  ASSERT_EQ(run("stopped", resumed), 0) << messages();
  expectSameFiles("whole/step-000006000", "stopped/step-000006000");
}

TEST_F(ResumeTest, eachMistakeIsOneLine) {
  ASSERT_EQ(run("run", {"--steps=4"}), 0) << messages();
  const auto expectError = [&](const std::string &name, std::vector<std::string> more, const std::string &text) {
    EXPECT_EQ(run(name, std::move(more)), 1);
    const std::string said = messages();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_TRUE(said.starts_with("error: ")) << said;
    expectContains(said, text);
  };
  expectError("none", {"--resume"}, "there is no checkpoint to resume from");
  expectError("run", {}, "--resume goes on from them");
  expectError("run", {"--resume", "--seed=2"}, "the checkpoint's seed is `1337`, this run's is `2`");
  expectError("run", {"--resume", "--width=16"}, "the checkpoint's model is `gpt2: 1 layers, 2 heads, width 8");
  expectError("run", {"--resume", "--batch=3"}, "the checkpoint's batch is `1 x 2 x 8`");
  expectError("run", {"--resume", "--data", folder.write("other", readAll(folder.path("text")) + "x")},
              "the checkpoint's data is");
  folder.write("run/step-000000004/optimizer.safetensors", "");
  EXPECT_EQ(run("run", {"--resume", "--steps=4"}), 0) << messages();
  expectContains(messages(), "step-000000004: the checkpoint is damaged (optimizer.safetensors has 0 bytes");
  expectContains(messages(), "going on after step 1 of");
  folder.write("run/step-000000004/optimizer.safetensors", "");
  folder.write("run/step-000000002/run.json", "{}");
  EXPECT_EQ(run("run", {"--resume", "--steps=4"}), 1);
  expectContains(messages(), "no checkpoint of 2 is intact");
}

TEST_F(ResumeTest, aFullDiskIsSaidAndTheRunGoesOnAndFails) {
  // A limit on file sizes, which the weights are above, stands for the full disk.
  const std::string command = "ulimit -f 200; exec \"$0\" \"$@\"";
  const pid_t child = ::fork();
  if (child == 0) {
    const int messages = ::open(folder.path("messages").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(messages, 2);
    ::execlp("bash", "bash", "-c", command.c_str(), TCC_TRAIN_GPT, "--data", folder.path("text").c_str(), "--threads=1",
             "--layers=1", "--heads=2", "--width=64", "--seq=8", "--batch=2", "--steps=6", "--checkpoint-every=2",
             "--checkpoint", folder.path("full").c_str(), nullptr);
    ::_exit(127);
  }
  EXPECT_EQ(wait(child), 1) << messages();
  for (const char *steps : {"2", "4", "6"})
    expectContains(messages(), std::string("warning: no checkpoint of ") + steps + " steps: ");
  expectContains(messages(), "File too large; the run goes on");
  expectContains(messages(), "error: no checkpoint of 6 steps: ");
  EXPECT_TRUE(fs::is_empty(folder.path("full")));
}

} // namespace
} // namespace tcc::models
