// --ablate: its arithmetic over steps that are made up, the list of switches, and the program from table to picture.
#include "frontend/ablation.h"
#include "frontend/error.h"
#include "frontend/switches.h"
#include "runtime/cpu.h"
#include "tests/frontend/run_tcc.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

namespace {

using namespace tcc;
using namespace tcc::test;
using nlohmann::json;

/// Takes the milliseconds that it is given, one after another.
class MadeUpStep : public AblatedStep {
public:
  MadeUpStep(int code, std::vector<double> times) : code(code), times(std::move(times)) {}
  bool isSameAs(const AblatedStep &other) const override { return code == static_cast<const MadeUpStep &>(other).code; }
  StepSize size() const override { return {code, 10 * code, 1000 * code}; }
  double milliseconds() override { return times[run++ % times.size()]; }

  int code;
  std::vector<double> times;
  size_t run = 0;
};

Ablation madeUp(const std::vector<std::pair<std::string, MadeUpStep>> &off, MadeUpStep whole, std::string untimed = {},
                int rounds = 3) {
  Ablation ablation{.title = "made up", .untimed = std::move(untimed), .rounds = rounds};
  std::vector<std::string> options;
  for (const auto &[option, step] : off)
    options.push_back(option);
  ablate(
      ablation, whole, options,
      [&](const std::string &option) -> std::unique_ptr<AblatedStep> {
        for (const auto &[name, step] : off)
          if (name == option && step.code >= 0)
            return std::make_unique<MadeUpStep>(step);
        throw Error("no such step");
      },
      [](const AblationRow &) {});
  return ablation;
}

TEST(Ablation, TakesMediansAndNamesTheDearest) {
  const Ablation ablation = madeUp({{"-fno-a", {2, {11, 12, 13}}},
                                    {"-fno-b", {3, {20, 24, 22}}},
                                    {"-fno-c", {1, {99}}},
                                    {"-fno-d", {4, {5, 5, 5}}},
                                    {"-fno-e", {-1, {}}},
                                    {"-O0", {5, {90}}}},
                                   {1, {10}});
  ASSERT_EQ(ablation.rows.size(), 7u);
  const AblationRow &b = ablation.rows[2];
  EXPECT_EQ(b.medianMs(), 22);
  EXPECT_EQ(b.ratios(), (std::vector<double>{2, 2.2, 2.4}));
  EXPECT_EQ(b.medianRatio(), 2.2);
  EXPECT_NEAR(b.middleHalf().low, 2.1, 1e-12); // halfway from the least quotient to the next
  EXPECT_NEAR(b.middleHalf().high, 2.3, 1e-12);
  EXPECT_EQ(ablation.dearest(), &b); // -O0 is no switch
  EXPECT_EQ(ablation.harmful(), (std::vector<const AblationRow *>{&ablation.rows[4]}));

  const AblationRow &c = ablation.rows[3];
  EXPECT_TRUE(c.changesNothing && c.ms.empty());
  EXPECT_HAS(ablation.text(c), "changes nothing here");
  EXPECT_HAS(ablation.text(ablation.rows[5]), "-fno-e                     cannot be left out: no such step");
  EXPECT_HAS(ablation.words(), "-fno-b is the dearest: the step takes 2.200 times as long\n"
                               "-fno-d makes it faster here: 0.500 times the time\n");
}

/// The times that are these multiples of 10 ms.
std::vector<double> timesOf(std::vector<double> quotients) {
  for (double &quotient : quotients)
    quotient *= 10;
  return quotients;
}

/// The times of everything on, on a machine whose neighbours disturb it.
const std::vector<double> disturbed = {10, 10, 10, 15, 10, 9, 10, 10, 14, 10, 10, 10, 11, 10, 10};

TEST(Ablation, ANoisyMachineStillSeesWhatIsLarge) {
  // Twice the time, but for two rounds of fifteen in which another program stood beside everything on.
  const std::vector<double> large = {2.2, 2.1, 0.8, 2.3, 2.2, 3.5, 2.0, 2.2, 0.9, 2.4, 2.1, 2.2, 2.2, 1.9, 2.3};
  const std::vector<double> none = {1.5, 0.7, 1.1, 0.9, 1.0, 1.3, 0.8, 1.0, 1.2, 0.9, 1.1, 0.6, 1.0, 1.4, 0.9};
  std::vector<double> faster = large;
  for (double &quotient : faster)
    quotient = 1 / quotient;
  const Ablation ablation = madeUp({{"-fno-large", {2, timesOf(large)}},
                                    {"-fno-none", {3, timesOf(none)}},
                                    {"-fno-faster", {4, timesOf(faster)}},
                                    {"-O0", {5, timesOf(large)}}},
                                   {1, disturbed}, {}, 15);
  EXPECT_EQ(ablation.dearest(), &ablation.rows[1]);
  EXPECT_EQ(ablation.harmful(), (std::vector<const AblationRow *>{&ablation.rows[3]}));
  EXPECT_TRUE(ablation.rows[2].middleHalf().contains(1));
  EXPECT_FALSE(ablation.isSeen(ablation.rows[4])) << "-O0 is not one switch";
}

TEST(Ablation, AQuietMachineSeesWhatIsSmall) {
  const Ablation ablation = madeUp({{"-fno-small", {2, timesOf({1.012, 1.015, 1.013, 1.011, 1.014})}},
                                    {"-fno-none", {3, timesOf({1.001, 0.998, 1.0, 0.999, 1.002})}}},
                                   {1, {10}}, {}, 5);
  EXPECT_EQ(ablation.dearest(), &ablation.rows[1]);
  EXPECT_FALSE(ablation.isSeen(ablation.rows[2]));
  EXPECT_TRUE(ablation.harmful().empty());
}

TEST(Ablation, WhatDiffersByAsMuchAsOneStepIsNotSeen) {
  // Everything on, beside itself, differs by a fifth in each second round: -fno-a, always slower by 15 %, may be that.
  const Ablation ablation = madeUp({{"-fno-a", {2, {11.5}}}}, {1, {10, 12, 10, 10, 10, 12, 10, 10, 10, 10}});
  EXPECT_FALSE(ablation.rows[1].middleHalf().contains(1));
  EXPECT_TRUE(ablation.rows[0].middleHalf().contains(1.15));
  EXPECT_EQ(ablation.dearest(), nullptr);
  EXPECT_TRUE(ablation.harmful().empty());
  EXPECT_HAS(ablation.words(), "no switch brings more than the runs of one step differ");
}

TEST(Ablation, FewRoundsNameNothing) {
  const Ablation ablation = madeUp({{"-fno-a", {2, {30}}}}, {1, {10}}, {}, 2);
  EXPECT_EQ(ablation.rows[1].medianRatio(), 3);
  EXPECT_EQ(ablation.dearest(), nullptr);
  EXPECT_HAS(ablation.words(), "fewer than 3 rounds name no switch");
}

TEST(Ablation, TableAndJsonHaveTheSameFigures) {
  const Ablation ablation = madeUp({{"-fno-a", {2, {11, 12, 13}}}, {"-fno-c", {1, {99}}}}, {1, {10}});
  const json read = json::parse(ablation.json());
  EXPECT_EQ(read["dearest"], "-fno-a");
  ASSERT_EQ(read["rows"].size(), 3u);
  EXPECT_EQ(read["rows"][0]["off"], nullptr);
  EXPECT_EQ(read["rows"][1]["ms"], 12);
  EXPECT_EQ(read["rows"][1]["quartiles"], (json{1.15, 1.25}));
  EXPECT_EQ(read["rows"][1]["is_seen"], true);
  EXPECT_EQ(read["rows"][2]["is_seen"], nullptr);
  EXPECT_EQ(read["rows"][1]["ms_rounds"], (json{11, 12, 13}));
  EXPECT_EQ(read["rows"][2]["ms"], nullptr);
  EXPECT_EQ(read["rows"][2]["changes_nothing"], true);
  EXPECT_EQ(read["rows"][1]["planned_bytes"], 2000);
  EXPECT_TRUE(ablation.picture().starts_with("<svg") && ablation.picture().ends_with("</svg>\n"));
}

TEST(Ablation, UntimedStepsHavePlansAlone) {
  const Ablation ablation = madeUp({{"-fno-a", {2, {1}}}}, {1, {1}}, "no device");
  EXPECT_TRUE(ablation.rows[0].ms.empty() && ablation.rows[1].ms.empty());
  EXPECT_EQ(ablation.rows[1].size.plannedBytes, 2000);
  EXPECT_EQ(ablation.words(), "not timed: no device\n");
  EXPECT_EQ(json::parse(ablation.json())["untimed"], "no device");
  EXPECT_HAS(ablation.picture(), "0.002 MB planned");
}

TEST(Switches, AreThePassesThatRunAndWhatElseIsOn) {
  CompilerFlags flags;
  const std::vector<std::string> usual = {"-fno-match-attention",
                                          "-fno-join-matmuls",
                                          "-fno-simplify",
                                          "-fno-pad-shapes",
                                          "-fno-pack-attention",
                                          "-fno-fuse-epilogues",
                                          "-fno-schedule-collectives",
                                          "-fno-keep-packed",
                                          "-fno-fuse-optimizer",
                                          "-O1",
                                          "-O0"};
  EXPECT_EQ(switchesOff(flags, "cpu"), usual);
  flags.passes["simplify"] = false;
  flags.padding = 0;
  flags.level = 1;
  flags.products = runtime::DType::bf16;
  flags.fastMath = true;
  flags.remat = Remat::block;
  std::vector<std::string> expected = {"-fno-match-attention", "-fno-join-matmuls", "--dtype=f32"};
  if (!runtime::requireCpuFeatures("avx512bf16")) // where activations are stored in 16 bits
    expected.insert(expected.end(), {"-fno-narrow-activations", "-fno-fuse-gelu"});
  expected.insert(expected.end(),
                  {"-fno-pack-attention", "-fno-fuse-epilogues", "--remat=none", "-fno-schedule-collectives",
                   "-fno-keep-packed", "-fno-fuse-optimizer", "-fno-fast-math", "-O0"});
  EXPECT_EQ(switchesOff(flags, "cpu"), expected);
  flags = {};
  flags.level = 0;
  EXPECT_TRUE(switchesOff(flags, "cpu").empty());
  flags.passes["simplify"] = true;
  EXPECT_EQ(switchesOff(flags, "cpu"), (std::vector<std::string>{"-fno-simplify"}));
  EXPECT_THROW(switchesOff(flags, "abacus"), Error);
}

TEST(Switches, EachOptionOfTheListSwitchesItsOwnOff) {
  CompilerFlags flags;
  flags.products = runtime::DType::bf16;
  flags.fastMath = true;
  flags.remat = Remat::full;
  for (const std::string &option : switchesOff(flags, "cpu")) {
    const std::vector<std::string> rest = switchesOff(withOption(flags, option), "cpu");
    EXPECT_EQ(std::ranges::count(rest, option), 0) << option;
  }
}

/// The rows of the program's table by what is off.
std::map<std::string, std::vector<std::string>> tableOf(const std::string &text) {
  std::map<std::string, std::vector<std::string>> rows;
  const std::regex row("  (everything on|-\\S+) +(\\d+) +(\\d+) +([\\d.]+)(?:  (changes nothing here)| +([\\d.]+) "
                       "+([\\d.]+)x +([\\d.]+)\\.\\.([\\d.]+).*)?");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (std::smatch found; std::regex_match(line, found, row))
      rows[found[1]] = {found.begin() + 2, found.end()};
  return rows;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

TEST(AblateProgram, TableJsonAndPictureSayTheSame) {
  const std::string out = folder() / "a.json", picture = folder() / "a.svg";
  const Result result = runTcc(model("attention") + " --threads=1 --ablate=2 --json=" + out + " --plot=" + picture);
  ASSERT_EQ(result.status, 0) << result.err;
  const auto table = tableOf(result.out);
  const json read = json::parse(slurp(out));
  ASSERT_EQ(read["rows"].size(), table.size()) << result.out;
  EXPECT_EQ(read["rounds"], 2);
  for (const json &row : read["rows"]) {
    const std::string name = row["off"].is_null() ? "everything on" : row["off"].get<std::string>();
    ASSERT_TRUE(table.contains(name)) << name;
    const std::vector<std::string> &cells = table.at(name);
    EXPECT_EQ(cells[0], std::to_string(row["kernels"].get<int>()));
    EXPECT_EQ(cells[1], std::to_string(row["matmuls"].get<int>()));
    EXPECT_EQ(cells[2], fixed(row["planned_bytes"].get<double>() / 1e6, 3));
    EXPECT_EQ(row["changes_nothing"].get<bool>(), !cells[3].empty()) << name;
    if (row["changes_nothing"])
      continue;
    EXPECT_EQ(cells[4], fixed(row["ms"], 4));
    EXPECT_EQ(cells[5], fixed(row["time_ratio"], 3));
    EXPECT_EQ(cells[6], fixed(row["quartiles"][0], 3));
    EXPECT_EQ(cells[7], fixed(row["quartiles"][1], 3));
    EXPECT_EQ(row["ms_rounds"].size(), 2u);
  }
  EXPECT_EQ(table.at("-fno-schedule-collectives")[3], "changes nothing here");
  EXPECT_EQ(table.at("-fno-match-attention")[3], "");
  EXPECT_HAS(result.out, "\nbound by ");
  EXPECT_HAS(slurp(picture), "-fno-match-attention");
}

TEST(AblateProgram, PlansAreThoseOfTheOptionsAlone) {
  const std::string out = folder() / "b.json";
  ASSERT_EQ(runTcc(model("attention") + " --threads=1 --ablate=1 --json=" + out).status, 0);
  for (const json &row : json::parse(slurp(out))["rows"]) {
    const std::string off = row["off"].is_null() ? "" : row["off"].get<std::string>();
    const std::string memory = runTcc(model("attention") + " --threads=1 -emit=memory.json " + off).out;
    EXPECT_EQ(json::parse(memory)["planned_bytes"], row["planned_bytes"]) << off;
    const std::string on = runTcc(model("attention") + " --threads=1 -emit=json").out;
    const std::string without = runTcc(model("attention") + " --threads=1 -emit=json " + off).out;
    EXPECT_EQ(row["changes_nothing"].get<bool>(), !off.empty() && on == without) << off;
  }
}

TEST(AblateProgram, StdoutIsTheJsonAloneWhereItGoesThere) {
  const Result result = runTcc(file("good.graph", good) + " --threads=1 --ablate=1 --json=-");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(json::accept(result.out)) << result.out;
  EXPECT_HAS(result.err, "everything on");
}

TEST(AblateProgram, AGpuThatIsNotThereLeavesPlans) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has a GPU";
  const std::string out = folder() / "c.json";
  const Result result = runTcc(model("attention") + " --target=cuda -march=sm_90a --ablate --json=" + out);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "not timed: timing needs a GPU: ");
  for (const char letter : result.out)
    EXPECT_TRUE(letter == '\n' || letter >= ' ' || uint8_t(letter) >= 0x80) << "a control character";
  EXPECT_NO_THROW(json(result.out).dump()) << "not UTF-8"; // as of memory that was freed
  EXPECT_EQ(lines(result.out.substr(0, result.out.find("  off "))), 2) << result.out;
  const json read = json::parse(slurp(out));
  EXPECT_FALSE(read["untimed"].is_null());
  for (const json &row : read["rows"]) {
    EXPECT_TRUE(row["ms"].is_null());
    EXPECT_GT(row["planned_bytes"], 0) << row["off"];
    EXPECT_GT(row["kernels"], 0) << row["off"];
  }
}

TEST(AblateProgram, AStepThatPrintsDoesNotFillTheTable) {
  const std::string path =
      file("prints.graph", "func.func @f(%x: tensor<4xf32> {tcc.name = \"x\"}) -> tensor<4xf32> {\n"
                           "  %y = tcc.gelu %x : tensor<4xf32>\n  tcc.print \"y\", %y : tensor<4xf32>\n"
                           "  func.return %y : tensor<4xf32>\n}\n");
  const Result result = runTcc(path + " --threads=1 --ablate=1");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_LACKS(result.out, "y [4] =");
  EXPECT_HAS(result.out, "everything on");
}

TEST(AblateProgram, RefusesWhatMakesNoSense) {
  const std::string path = file("good.graph", good);
  for (const char *other : {"--run", "--bench", "--run=reference", "--graph-breaks", "-fverify-each", "-save-temps",
                            "-ftime-report", "--profile=p.json", "--report=r"})
    EXPECT_HAS(runTcc(path + " --ablate " + other).err, "cannot be given with --ablate") << other;
  for (const auto &[arguments, message] : {std::pair{"--ablate=0", "'0' of --ablate= is no number from 1 to 1000"},
                                           std::pair{"--json=x.json", "--json= without --bench or --ablate"},
                                           std::pair{"--bench --plot=x.svg", "--plot= without --ablate"},
                                           std::pair{"--ablate -emit=json", "do not go together with -emit="},
                                           std::pair{"--ablate -o x.so", "-o with --run, --bench or --ablate"},
                                           std::pair{"--ablate --json=- --plot=-", "would both go to stdout"},
                                           std::pair{"--ablate --json=", "--json= without a file"}}) {
    const Result result = runTcc(path + " " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_HAS(result.err, message);
    EXPECT_EQ(lines(result.err), 1) << result.err;
  }
  const std::string copy = folder() / "keep.graph";
  std::filesystem::copy_file(path, copy);
  EXPECT_EQ(runTcc(copy + " --ablate=1 --json=" + copy).status, 1);
  EXPECT_EQ(slurp(copy), good);
}

TEST(AblateProgram, CompiledStepsAreRefused) {
  const std::string path = file("good.graph", good);
  for (const std::string name : {"step.tcc", "step.so"}) {
    const std::string made = folder() / name;
    ASSERT_EQ(runTcc(path + " -o " + made).status, 0);
    const Result result = runTcc(made + " --ablate");
    EXPECT_EQ(result.status, 1);
    EXPECT_HAS(result.err, "is compiled already; it takes --run or --bench; --ablate compiles");
    EXPECT_EQ(lines(result.err), 1) << result.err;
  }
}

} // namespace
