// --init and --adapter of a run's folder: which checkpoint is meant, and what is refused.
#include "frontend/files.h"
#include "models/checkpoint_store.h"
#include "models/start_folders.h"
#include "test_files.h"

namespace tcc::models {
namespace {

namespace fs = std::filesystem;

class StartFolders : public testing::Test {
protected:
  /// A run with checkpoints after these steps, each of which holds one file.
  std::string makeRun(const std::string &name, const std::vector<int64_t> &steps, const char *file = "config.json") {
    CheckpointStore store(folder.path(name), 10);
    for (const int64_t step : steps)
      store.write(step, [&](const std::string &made) {
        AtomicFile content(inFolder(made, file));
        content.write("step " + std::to_string(step));
        content.commit();
      });
    return folder.path(name);
  }

  void damage(const std::string &checkpoint) { std::ofstream(checkpoint + "/config.json") << "step 0"; }

  std::string start(const std::string &path, const std::string &flag = "--init") {
    said.clear();
    return startFolder(flag, path, [&](std::string_view text) { said += std::string(text) + "\n"; });
  }
  std::string refusal(const std::string &path, const std::string &flag = "--init") {
    return errorOf([&] { start(path, flag); });
  }

  TemporaryFolder folder{memoryFolder()};
  std::string said;
};

TEST_F(StartFolders, aRunIsItsNewestCheckpoint) {
  const std::string run = makeRun("run", {5, 20, 10});
  EXPECT_EQ(start(run), run + "/step-000000020");
  EXPECT_EQ(fs::path(start(run + "/")).lexically_normal(), run + "/step-000000020");
  EXPECT_EQ(start(run + "/step-000000005"), run + "/step-000000005") << "or one that is named";
  EXPECT_EQ(start(run + "/step-000000005/"), run + "/step-000000005/");
  EXPECT_EQ(said, "");
}

TEST_F(StartFolders, otherFoldersStayAsTheyAre) {
  const std::string run = makeRun("run", {5});
  folder.write("config.json", "{}");
  EXPECT_EQ(start(folder.path("")), folder.path(""));
  EXPECT_EQ(start(folder.path("absent")), folder.path("absent")) << "who reads it says so";
  folder.write("run/config.json", "{}");
  EXPECT_EQ(start(run), run) << "weights beside checkpoints are meant";
  fs::copy(run + "/step-000000005", folder.path("step-copy"));
  EXPECT_EQ(start(folder.path("step-copy")), folder.path("step-copy"));
  fs::create_directory(folder.path("step-000000007"));
  folder.write("step-000000007/config.json", "{}");
  EXPECT_EQ(start(folder.path("step-000000007")), folder.path("step-000000007")) << "no checkpoint, whatever its name";
}

TEST_F(StartFolders, damagedCheckpointsAreSaidAndPassedOver) {
  const std::string run = makeRun("run", {5, 10, 20});
  damage(run + "/step-000000020");
  EXPECT_EQ(start(run), run + "/step-000000010");
  EXPECT_EQ(said, run + "/step-000000020: the checkpoint is damaged (config.json has 6 bytes, 7 were written), the one "
                        "before it is tried\n");
  EXPECT_EQ(refusal(run + "/step-000000020"),
            "--init " + run +
                "/step-000000020: the checkpoint is damaged (config.json has 6 bytes, 7 were written); "
                "--init " +
                run + " takes the newest one of its run that is intact");
  fs::remove(run + "/step-000000010/config.json");
  expectContains(refusal(run + "/step-000000010"), "(`config.json` is missing)");
  fs::remove_all(run + "/step-000000010");
  fs::remove(run + "/step-000000005/manifest.json");
  expectContains(refusal(run), "--init " + run + ": no checkpoint of 2 is intact (" + run + "/step-000000005: ");
}

TEST_F(StartFolders, foldersWithoutWeightsAreRefused) {
  EXPECT_EQ(refusal(folder.path("")),
            "--init " + folder.path("") + ": the folder has neither config.json nor checkpoints of a run (step-…)");
  EXPECT_EQ(refusal(folder.path(""), "--adapter"),
            "--adapter " + folder.path("") +
                ": the folder has neither adapter_config.json nor checkpoints of a run (step-…)");
  const std::string run = makeRun("run", {5}), adapters = makeRun("adapters", {5}, "adapter_config.json");
  const std::string step = adapters + "/step-000000005";
  EXPECT_EQ(start(adapters, "--adapter"), step);
  for (const std::string &path : {adapters, step})
    EXPECT_EQ(refusal(path), "--init " + step +
                                 ": the checkpoint holds an adapter, not the weights that it is for; "
                                 "--init FOLDER with these weights and --adapter " +
                                 step + " start from it");
  EXPECT_EQ(refusal(run, "--adapter"), "--adapter " + run +
                                           "/step-000000005: the checkpoint holds no adapter; --init " + run +
                                           "/step-000000005 starts from its weights");
}

TEST_F(StartFolders, theLogCallsAModelByRunAndStep) {
  EXPECT_EQ(nameOfFolder("some/run/step-000000005"), "run/step-000000005");
  EXPECT_EQ(nameOfFolder("some/gpt2/"), "gpt2");
}

} // namespace
} // namespace tcc::models
