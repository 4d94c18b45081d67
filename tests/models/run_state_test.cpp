#include "models/run_state.h"
#include "test_files.h"

#include <cmath>

namespace tcc::models {
namespace {

RunState someState() {
  RunState state;
  state.step = 120;
  state.skipped = 1;
  state.lossFirst = 5.545;
  state.lossLast = 0.1;
  state.identity = {{"model", "gpt2"}, {"seed", "1337"}};
  state.settings = {{"--lr", "0.001"}, {"--steps", "200"}};
  return state;
}

std::string sameRunError(const RunState &theirs, const RunState &mine, std::string *notes = nullptr) {
  return errorOf([&] {
    checkSameRun("runs/step-1", theirs, mine, [&](std::string_view note) {
      if (notes)
        *notes += note;
    });
  });
}

TEST(RunState, comesBackAsItWas) {
  const TemporaryFolder folder;
  RunState state = someState();
  state.lossLast = NAN;
  state.seconds = 0.1;
  writeRunState(folder.path("a"), state);
  const RunState back = readRunState(folder.path("a"));
  EXPECT_EQ(back.step, 120);
  EXPECT_EQ(back.skipped, 1);
  EXPECT_EQ(back.lossFirst, 5.545);
  EXPECT_TRUE(std::isnan(back.lossLast));
  EXPECT_EQ(back.seconds, 0.1);
  EXPECT_EQ(back.identity, state.identity);
  EXPECT_EQ(back.settings, state.settings);
  writeRunState(folder.path("b"), back);
  EXPECT_EQ(readAll(folder.path("a")), readAll(folder.path("b")));
}

TEST(RunState, refusesWhatIsNone) {
  const TemporaryFolder folder;
  writeRunState(folder.path("whole"), someState());
  const std::string whole = readAll(folder.path("whole"));
  for (const std::string &text : {std::string(), std::string("[]"), whole.substr(0, whole.size() / 2),
                                  std::string("{\"step\": \"x\"}"), std::string(2 << 20, ' ')})
    expectContains(errorOf([&] { readRunState(folder.write("bad", text)); }), "bad: ");
}

TEST(RunState, anotherRunsCheckpointIsRefused) {
  const RunState theirs = someState();
  EXPECT_EQ(sameRunError(theirs, theirs), "");
  RunState mine = theirs;
  mine.identity["seed"] = "7";
  EXPECT_EQ(sameRunError(theirs, mine),
            "runs/step-1: the checkpoint's seed is `1337`, this run's is `7`; a run goes on with its own");
  mine = theirs;
  mine.identity["lora"] = "8";
  expectContains(sameRunError(theirs, mine), "the checkpoint's lora is `nothing`, this run's is `8`");
  expectContains(sameRunError(mine, theirs), "the checkpoint's lora is `8`, this run's is `nothing`");
  mine = theirs;
  mine.identity["--params"] = "bf16";
  expectContains(sameRunError(mine, theirs), "the checkpoint's --params is `bf16`, this run's is `f32`");
}

TEST(RunState, changedSettingsAreSaid) {
  const RunState theirs = someState();
  RunState mine = theirs;
  mine.settings["--lr"] = "0.01";
  std::string notes;
  EXPECT_EQ(sameRunError(theirs, mine, &notes), "");
  EXPECT_EQ(notes, "note: --lr is 0.01 from here on, the checkpoint's run had 0.001");
}

} // namespace
} // namespace tcc::models
