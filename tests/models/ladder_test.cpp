// --ladder: its rungs, what it takes for a mistake, and a small one from the first rung to the last.
#include "frontend/switches.h"
#include "models/ablation.h"
#include "models/ladder.h"
#include "runtime/cpu.h"
#include "test_files.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

namespace tcc::models {

namespace {

RungResult result(const std::string &name, const std::string &plan, double loss) {
  RungResult made;
  made.rung.name = name;
  made.plan = plan;
  made.wasTrained = true;
  made.lastLoss = loss;
  return made;
}

TEST(Ladder, ASwitchThatSwitchesNothingIsAMistake) {
  const RungResult before = result("fusion", "a", 4);
  RungResult now = result("epilogues", "a", 4);
  EXPECT_NE(problemOf(before, now).find("rung 'epilogues' has the plan of 'fusion'"), std::string::npos);
  now.rung.mayChangeNothing = true;
  EXPECT_EQ(problemOf(before, now), "");
  now.rung.mayChangeNothing = false;
  now.plan = "b";
  EXPECT_EQ(problemOf(before, now), "");
  now.plan = "a";
  now.prefetches = false; // another run of the same plan
  EXPECT_EQ(problemOf(before, now), "");
}

TEST(Ladder, AnotherLossIsAMistakeUnlessTheBatchIsAnother) {
  const RungResult before = result("fusion", "a", 4);
  RungResult now = result("epilogues", "b", 4.1);
  now.rung.lossTolerance = 0.02;
  EXPECT_NE(problemOf(before, now).find("ends at a loss of 4.10000, 'fusion' at 4.00000; 0.02 of it"),
            std::string::npos);
  now.rung.lossTolerance = 0.03;
  EXPECT_EQ(problemOf(before, now), "");
  now.lastLoss = std::nan("");
  EXPECT_NE(problemOf(before, now), "");
  now.rung.lossTolerance.reset();
  EXPECT_EQ(problemOf(before, now), "");
}

TEST(Ladder, RungsThatADeviceDoesNotHaveAreNamed) {
  TrainOptions options;
  options.batch = 6;
  for (const bool isFast : {false, true}) {
    const std::vector<Rung> rungs = rungsOf(options, {.gainsFromBf16 = isFast});
    std::set<std::vector<std::string>> different;
    for (const Rung &rung : rungs) {
      EXPECT_EQ(!rung.missing.empty(), rung.name == "one graph a step" || rung.name == "fast matmuls" ||
                                           (rung.name == "16-bit matmuls" && !isFast))
          << rung.name;
      EXPECT_EQ(rung.missing.empty() && !different.insert(rung.options).second, false) << rung.name;
    }
    const std::vector<std::string> &last = rungs.back().options;
    EXPECT_EQ(std::ranges::count(last, isFast ? "--dtype=bf16" : "--dtype=f32"), 1);
    EXPECT_EQ(std::ranges::count(last, "--batch=12"), 1);
  }
  options.loraRank = 2;
  const std::vector<Rung> rungs = rungsOf(options, {.isGpu = true});
  EXPECT_EQ(std::ranges::count(rungs.back().options, "--params=bf16"), 0);
  EXPECT_EQ(std::ranges::count_if(rungs, [](const Rung &rung) { return !rung.missing.empty(); }), 3);
}

TEST(Ladder, OnAGpuEveryRungHasASwitch) {
  const std::vector<Rung> rungs = rungsOf({}, {.isGpu = true, .gainsFromBf16 = true, .hasTf32 = true});
  std::set<std::vector<std::string>> different;
  const Rung *fast = nullptr, *graph = nullptr;
  for (const Rung &rung : rungs) {
    EXPECT_EQ(rung.missing, "") << rung.name;
    EXPECT_TRUE(different.insert(rung.options).second) << rung.name;
    const auto has = [&](const char *option) { return std::ranges::count(rung.options, option) == 1; };
    EXPECT_EQ(int(has("--dtype=f32")) + int(has("--dtype=tf32")) + int(has("--dtype=bf16")), 1) << rung.name;
    fast = rung.name == "fast matmuls" ? &rung : fast;
    graph = rung.name == "one graph a step" ? &rung : graph;
    EXPECT_EQ(has("-fno-cuda-graph"), graph == nullptr) << rung.name; // steps are graphs from that rung on
    EXPECT_EQ(has("--dtype=f32"), fast == nullptr) << rung.name;
  }
  ASSERT_TRUE(fast && graph);
  EXPECT_EQ(std::ranges::count(fast->options, "--dtype=tf32"), 1);
  EXPECT_EQ(graph->lossTolerance, 0) << "the same bits";
}

TEST(Ladder, IsClimbedWhole) {
  const TemporaryFolder folder;
  const std::vector<std::string> arguments = {"--ladder",
                                              "--data",
                                              folder.write("data.txt", easyText(400)),
                                              "--layers=2",
                                              "--heads=2",
                                              "--width=32",
                                              "--seq=32",
                                              "--batch=4",
                                              "--steps=3",
                                              "--threads=1",
                                              "--device=cpu",
                                              "--quiet",
                                              "--json",
                                              folder.path("rungs.jsonl"),
                                              "--plot",
                                              folder.path("rungs.svg")};
  const ParsedOptions parsed = parseTrainOptions(arguments);
  ASSERT_TRUE(parsed.options) << parsed.message;
  std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
  const int status = climbLadder(arguments, *parsed.options, output);
  std::fclose(output);
  const std::string table = readAll(folder.path("out"));
  EXPECT_EQ(status, 0) << table;
  std::vector<nlohmann::json> rows;
  std::istringstream lines(readAll(folder.path("rungs.jsonl")));
  for (std::string line; std::getline(lines, line);)
    if (nlohmann::json row = nlohmann::json::parse(line); row.contains("missing"))
      expectContains(table, "not here: " + row["missing"].get<std::string>());
    else
      rows.push_back(std::move(row));
  ASSERT_GE(rows.size(), 12u);
  std::set<std::string> plans;
  for (const nlohmann::json &row : rows) {
    plans.insert(row["plan"].get<std::string>());
    EXPECT_EQ(row["planned_bytes"], row["peak_bytes"]) << row["rung"];
    EXPECT_GT(row["tokens_per_second"], 0);
    EXPECT_NEAR(row["loss_last"].get<double>(), rows[0]["loss_last"].get<double>(), 0.5) << row["rung"];
    const std::string name = row["rung"];
    expectContains(table, fmt::format("{:.4f}", row["loss_last"].get<double>()));
    expectContains(table, name);
  }
  EXPECT_GE(plans.size(), rows.size() - 4); // joined matmuls, padding and -O2 may change nothing, no plan shows input
  const auto number = [&](const char *rung, const char *key) {
    for (const nlohmann::json &row : rows)
      if (row["rung"] == rung)
        return row[key].get<int64_t>();
    ADD_FAILURE() << rung;
    return int64_t(-1);
  };
  EXPECT_LT(number("fused optimizer", "kernels"), number("mask by comparison", "kernels") / 2);
  EXPECT_EQ(number("fused optimizer", "matmuls"), number("mask by comparison", "matmuls"));
  EXPECT_LT(number("fusion", "kernels"), number("one kernel an op", "kernels") / 4);
  EXPECT_LT(number("attention matched", "matmuls"), number("fusion", "matmuls"));
  EXPECT_LT(number("epilogues", "kernels"), number("attention matched", "kernels"));
  EXPECT_LT(number("16-bit parameters", "planned_bytes"), number("cheap values again (-O2)", "planned_bytes"));
  EXPECT_LT(number("computed again by blocks", "planned_bytes"), number("twice the batch", "planned_bytes"));
  const std::string picture = readAll(folder.path("rungs.svg"));
  EXPECT_TRUE(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
  EXPECT_NE(picture.find("attention matched"), std::string::npos);
}

TEST(Ladder, IsPlannedWithoutARun) {
  const TemporaryFolder folder;
  const std::vector<std::string> sizes = {"--ladder",  "--model=script-baby", "--layers=2", "--width=32",
                                          "--heads=2", "--seq=128",           "--batch=4",  "--threads=1",
                                          "--quiet",   "--device=cpu"};
  std::vector<std::string> arguments = sizes;
  arguments.insert(arguments.end(),
                   {"--estimate", "--json", folder.path("plans.jsonl"), "--plot", folder.path("s.svg")});
  const ParsedOptions parsed = parseTrainOptions(arguments); // no data
  ASSERT_TRUE(parsed.options) << parsed.message;
  std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
  EXPECT_EQ(climbLadder(arguments, *parsed.options, output), 0);
  std::fclose(output);
  const std::string table = readAll(folder.path("out"));
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json &row : jsonLines(readAll(folder.path("plans.jsonl"))))
    if (!row.contains("missing"))
      rows[row["rung"]] = row;
  ASSERT_GE(rows.size(), 12u);
  std::vector<std::string> trained = sizes;
  trained.insert(trained.end(), {"--data", folder.write("data.txt", easyText(400)), "--steps=2"});
  for (const char *name : {"one kernel an op", "fusion", "16-bit parameters"}) {
    ASSERT_TRUE(rows.contains(name)) << name;
    const nlohmann::json &row = rows[name];
    EXPECT_FALSE(row.contains("loss_last") || row.contains("tokens_per_second")) << name;
    const RungResult ran = measure({.name = name, .options = row["options"], .missing = {}, .script = {}}, trained, 1);
    EXPECT_EQ(row["planned_bytes"], ran.plannedBytes) << name;
    EXPECT_EQ(row["planned_bytes"], ran.countedBytes) << name;
    EXPECT_EQ(row["kernels"], ran.kernels) << name;
    EXPECT_EQ(row["matmuls"], ran.matmuls) << name;
    expectContains(table, fmt::format("{:.1f}", row["planned_bytes"].get<double>() / 1e6));
  }
  // With T 128 the scores of naive attention are most of the memory.
  EXPECT_LT(rows["attention matched"]["planned_bytes"], rows["fusion"]["planned_bytes"].get<double>() * 0.8);
  expectContains(readAll(folder.path("s.svg")), "MB planned");
}

TEST(Ladder, AStoredMaskAndInputInTimeTrainTheSame) {
  const TemporaryFolder folder;
  const std::string data = folder.write("data.txt", std::string(2000, 'x') + std::string(2000, 'y'));
  for (const std::vector<std::string> &model :
       std::vector<std::vector<std::string>>{{"--model=baby", "--dropout=0.1"},
                                             {"--model=baby", "--dropout=0"},
                                             {"--model=llama-baby"},
                                             {"--model=modern-124m", "--width=32", "--heads=2", "--vocab=256"}}) {
    std::vector<std::string> arguments = {"--data",    data,        "--layers=1",  "--seq=16",
                                          "--batch=2", "--steps=3", "--threads=1", "--device=cpu"};
    arguments.insert(arguments.end(), model.begin(), model.end());
    const auto run = [&](std::vector<std::string> options) {
      return measure({.name = "run", .options = std::move(options), .missing = {}, .script = {}}, arguments, 1);
    };
    const RungResult usual = run({});
    EXPECT_EQ(run({"--no-prefetch"}).lastLoss, usual.lastLoss) << model[0];
    const RungResult stored = run({"--mask=stored"});
    EXPECT_NEAR(stored.lastLoss, usual.lastLoss, 1e-5 * usual.lastLoss) << model[0];
    EXPECT_NE(stored.plannedBytes, usual.plannedBytes) << model[0];
  }
}

TEST(Ablation, HasARunWithoutEachSwitchThatIsOn) {
  TrainOptions options;
  std::vector<std::string> compiler = switchesOff(options, "cpu"), all = compiler;
  all.insert(all.end() - 1, {"--mask=stored", "--no-prefetch"});
  EXPECT_EQ(ablationsOf(options, "cpu"), all);
  options.passes["simplify"] = false;
  options.level = 1;
  options.products = runtime::DType::bf16;
  options.parameters = runtime::DType::bf16;
  options.storesMask = true;
  options.prefetches = false;
  std::vector<std::string> expected = {"-fno-match-attention", "-fno-join-matmuls", "--dtype=f32", "-fno-pad-shapes"};
  if (!runtime::requireCpuFeatures("avx512bf16")) // where activations are stored in 16 bits
    expected.insert(expected.end(), {"-fno-narrow-activations", "-fno-fuse-gelu"});
  expected.insert(expected.end(), {"-fno-pack-attention", "-fno-fuse-epilogues", "-fno-schedule-collectives",
                                   "-fno-keep-packed", "-fno-fuse-optimizer", "--params=f32", "-O0"});
  EXPECT_EQ(ablationsOf(options, "cpu"), expected);
}

TEST(Ablation, SaysWhatEachSwitchBrings) {
  const TemporaryFolder folder;
  const std::vector<std::string> arguments = {"--ablate",
                                              "-O1",
                                              "-fno-simplify",
                                              "-fno-pad-shapes",
                                              "-fno-pack-attention",
                                              "-fno-join-matmuls",
                                              "--data",
                                              folder.write("data.txt", std::string(4000, 'x') + "y"),
                                              "--layers=1",
                                              "--heads=2",
                                              "--width=16",
                                              "--seq=16",
                                              "--batch=2",
                                              "--steps=2",
                                              "--threads=1",
                                              "--device=cpu",
                                              "--quiet",
                                              "--json",
                                              folder.path("rows.json"),
                                              "--plot",
                                              folder.path("rows.svg")};
  const ParsedOptions parsed = parseTrainOptions(arguments);
  ASSERT_TRUE(parsed.options) << parsed.message;
  std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
  EXPECT_EQ(ablate(arguments, *parsed.options, output), 0);
  std::fclose(output);
  const std::string table = readAll(folder.path("out"));
  const nlohmann::json read = nlohmann::json::parse(readAll(folder.path("rows.json")));
  const std::vector<std::string> options = ablationsOf(*parsed.options, "cpu");
  ASSERT_EQ(read["rows"].size(), 1 + options.size());
  for (size_t i = 0; i < options.size(); ++i) {
    const nlohmann::json &row = read["rows"][i + 1];
    EXPECT_EQ(row["off"], options[i]);
    expectContains(table, options[i]);
    // Ranks alone have collectives, and lanes packed weights to keep; no plan shows when a batch is made.
    const bool changesNothing = options[i] == "-fno-schedule-collectives" || options[i] == "-fno-keep-packed";
    EXPECT_EQ(row["changes_nothing"].get<bool>(), changesNothing) << options[i];
    if (!row["changes_nothing"])
      expectContains(table, fmt::format("{:.4f} {:>6.3f}x", row["ms"].get<double>(), row["time_ratio"].get<double>()));
    EXPECT_EQ(row["ms_rounds"].size(), row["changes_nothing"] ? 0u : 3u);
  }
  EXPECT_TRUE(std::regex_search(table, std::regex("\n(-.* is the dearest|no switch brings)"))) << table;
  EXPECT_TRUE(std::regex_search(table, std::regex("\nbound by (matmuls|memory traffic|attention): "))) << table;
  expectContains(readAll(folder.path("rows.svg")), "--mask=stored");
}

TEST(Ladder, RefusesWhatMakesNoSense) {
  for (const char *other : {"--compile-only=step.so", "--step=step.so"}) {
    const ParsedOptions parsed = parseTrainOptions({"--data=x", "--mask=stored", other});
    EXPECT_FALSE(parsed.options) << other;
    EXPECT_NE(parsed.message.find("--mask=stored cannot be given with"), std::string::npos) << parsed.message;
  }
  for (const char *other : {"--memory=2", "--checkpoint=c", "--ranks=2", "--save=s", "--profile=p", "--batch=auto",
                            "--csv=c", "--wandb=w", "--price-per-hour=1"}) {
    const ParsedOptions parsed = parseTrainOptions({"--data=x", "--ladder", "--estimate", other});
    EXPECT_FALSE(parsed.options) << other;
    EXPECT_NE(parsed.message.find("cannot be given with --ladder"), std::string::npos) << parsed.message;
  }
  const ParsedOptions parsed = parseTrainOptions({"--data=x", "--ablate", "--estimate"});
  EXPECT_NE(parsed.message.find("--estimate cannot be given with --ablate"), std::string::npos) << parsed.message;
}

} // namespace

} // namespace tcc::models
