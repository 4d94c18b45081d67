// Folders of checkpoints: order, damage, a full disk, and a process that is killed at each of its system calls.
#include "frontend/files.h"
#include "models/checkpoint_store.h"
#include "test_files.h"

#include <csignal>
#include <map>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace tcc::models {
namespace {

namespace fs = std::filesystem;

void writeFile(const std::string &folder, const char *name, const std::string &text) {
  AtomicFile file((fs::path(folder) / name).string());
  file.write(text);
  file.commit();
}

/// A checkpoint whose content tells its step.
void writeStep(CheckpointStore &store, int64_t step) {
  store.write(step, [&](const std::string &folder) {
    writeFile(folder, "weights", "weights of " + std::to_string(step));
    writeFile(folder, "moments", std::string(10000, char('a' + step % 26)));
  });
}

std::string weightsOf(const CheckpointStore &store, int64_t step) {
  return readAll(store.path(step) + "/weights");
}

std::optional<int64_t> newest(CheckpointStore &store, std::string *reports = nullptr) {
  return store.newestIntact([&](std::string_view text) {
    if (reports)
      *reports += std::string(text) + "\n";
  });
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class CheckpointStoreTest : public testing::Test {
protected:
  TemporaryFolder temporary{memoryFolder()};
  std::string root = temporary.path("runs/first");
};

TEST_F(CheckpointStoreTest, keepsTheLatest) {
  CheckpointStore store(root, 2);
  EXPECT_EQ(newest(store), std::nullopt);
  for (int64_t step : {5, 10, 1000000000, 15})
    writeStep(store, step);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{10, 15, 1000000000})) << "one of a later step is another run's";
  EXPECT_EQ(namesIn(root), (std::vector<std::string>{"step-000000010", "step-000000015", "step-1000000000"}));
  EXPECT_EQ(weightsOf(store, 15), "weights of 15");
  EXPECT_EQ(namesIn(store.path(15)), (std::vector<std::string>{"manifest.json", "moments", "weights"}));
}

TEST_F(CheckpointStoreTest, theSameStepAgainReplacesIt) {
  CheckpointStore store(root, 2);
  writeStep(store, 5);
  store.write(5, [](const std::string &folder) { writeFile(folder, "weights", "others"); });
  EXPECT_EQ(namesIn(root), std::vector<std::string>{"step-000000005"});
  EXPECT_EQ(weightsOf(store, 5), "others");
  EXPECT_EQ(newest(store), 5);
}

TEST_F(CheckpointStoreTest, everyDamageIsSeenAndTheOneBeforeIsUsed) {
  CheckpointStore store(root, 3);
  writeStep(store, 1);
  writeStep(store, 2);
  const std::string folder = store.path(2);
  for (const char *name : {"weights", "moments", "manifest.json"}) {
    const std::string path = folder + "/" + name, whole = readAll(path);
    const auto expectDamage = [&](const char *what) {
      std::string reports;
      EXPECT_EQ(newest(store, &reports), 1) << name << " " << what;
      expectContains(reports, folder + ": the checkpoint is damaged (");
    };
    for (size_t length : {size_t(0), whole.size() / 2, whole.size() - 1}) {
      std::ofstream(path, std::ios::binary) << whole.substr(0, length);
      expectDamage("cut");
    }
    for (size_t at = 0; at < whole.size(); at += whole.size() / 97 + 1) {
      std::string changed = whole;
      changed[at] = char(changed[at] ^ 4);
      std::ofstream(path, std::ios::binary) << changed;
      expectDamage("changed");
    }
    fs::remove(path);
    expectDamage("gone");
    std::ofstream(path, std::ios::binary) << whole;
    EXPECT_EQ(newest(store), 2);
  }
  std::ofstream(folder + "/more") << "x";
  EXPECT_EQ(newest(store), 1) << "a file that was not written";
  EXPECT_EQ(checkpointDamage(store.path(1), 2), "manifest.json is not that of these files");
}

TEST_F(CheckpointStoreTest, damagedOnesCountForNothing) {
  CheckpointStore store(root, 2);
  for (int64_t step : {10, 20, 30}) // 10 goes
    writeStep(store, step);
  std::ofstream(store.path(30) + "/weights") << "x";
  EXPECT_EQ(newest(store), 20);
  writeStep(store, 25);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{20, 25, 30}));
  writeStep(store, 35);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{25, 35}));
  std::ofstream(store.path(35) + "/weights") << "x";
  EXPECT_EQ(newest(store), 25);
  writeStep(store, 35);
  EXPECT_EQ(newest(store), 35);
  writeStep(store, 40);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{35, 40})) << "what was written again is whole";
}

TEST_F(CheckpointStoreTest, oneRunAFolder) {
  CheckpointStore store(root, 3);
  expectContains(errorOf([&] { CheckpointStore second(root, 3); }), "another run writes its checkpoints there");
  temporary.write("file", "");
  expectContains(errorOf([&] { CheckpointStore third(temporary.path("file"), 3); }), "file: cannot");
}

TEST_F(CheckpointStoreTest, aFullDiskLeavesNothingHalfWritten) {
  CheckpointStore store(root, 1);
  writeStep(store, 1);
  struct rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto oldAction = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {5000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = errorOf([&] { writeStep(store, 2); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, oldAction);
  expectContains(error, "moments`: File too large");
  EXPECT_EQ(namesIn(root), std::vector<std::string>{"step-000000001"});
  EXPECT_EQ(newest(store), 1) << "the older one has not made room";
}

/// Runs `action` in a process of its own, which is killed when it is about to make its system call number `call` (from
/// 0) after the first stop. Returns whether it ended by itself before.
template <typename Action>
bool endsBefore(int call, Action action) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    action();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int stops = 0; WIFSTOPPED(status); ++stops) {
    if (stops == 2 * call + 1) { // each call stops at its beginning and at its end
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return false;
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return true;
}

TEST_F(CheckpointStoreTest, killedAtAnySystemCallItKeepsTheLastGoodOne) {
  // A new entry with removal of the oldest, and one that replaces an entry.
  for (const bool replaces : {false, true}) {
    int calls = 0, kept = 0, replaced = 0;
    for (bool ended = false; !ended; ++calls) {
      std::error_code ignored;
      fs::remove_all(root, ignored);
      {
        CheckpointStore store(root, 2);
        writeStep(store, 1);
        writeStep(store, 2);
      }
      ended = endsBefore(calls, [&] {
        CheckpointStore store(root, 2);
        if (replaces)
          store.write(2, [](const std::string &folder) { writeFile(folder, "weights", "new"); });
        else
          writeStep(store, 3);
      });
      CheckpointStore store(root, 2); // also shows that the lock has gone
      std::string reports;
      const std::optional<int64_t> step = newest(store, &reports);
      ASSERT_TRUE(step) << "killed at call " << calls;
      EXPECT_EQ(reports, "") << "no entry is ever damaged; killed at call " << calls;
      const std::string weights = weightsOf(store, *step);
      const bool isNew = weights == (replaces ? "new" : "weights of 3");
      EXPECT_TRUE(isNew || weights == "weights of 2") << weights;
      (isNew ? replaced : kept) += 1;
      for (const std::string &name : namesIn(root))
        EXPECT_TRUE(name.starts_with("step-")) << name << " was left";
      if (HasFailure())
        return;
    }
    EXPECT_GT(kept, 20) << "kills before the rename";
    EXPECT_GT(replaced, 3) << "kills after it";
  }
}

} // namespace
} // namespace tcc::models
