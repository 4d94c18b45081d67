// --estimate: the bytes of the real run, components that add up to them, and a largest batch that one row more would
// break.
#include "frontend/quotes.h"
#include "models/estimate.h"
#include "models/trainer.h"
#include "runtime/memory.h"
#include "test_files.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;

class EstimateTest : public testing::Test {
protected:
  TemporaryFolder folder;

  TrainOptions options(const Arguments &more) {
    Arguments arguments = {"--quiet",   "--threads=1", "--device=cpu", "--layers=2",
                           "--heads=2", "--width=32",  "--seq=16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ParsedOptions parsed = parseTrainOptions(arguments);
    EXPECT_TRUE(parsed.options) << parsed.message;
    return parsed.options.value_or(TrainOptions());
  }

  std::string estimated(Arguments more) {
    more.emplace_back("--estimate");
    std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
    estimate(options(more), output);
    std::fclose(output);
    return readAll(folder.path("out"));
  }

  static int64_t numberIn(const std::string &text, const char *pattern) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex(pattern))) << text;
    return found.empty() ? -1 : std::stoll(found[1]);
  }

  static int64_t together(const std::string &text) { return numberIn(text, "\\(([0-9]+) bytes"); }

  /// The bytes that a run plans, and those that were counted while it ran.
  std::pair<int64_t, int64_t> ofARun(Arguments more, const char *steps = "--steps=1") {
    const std::string log = folder.path("log.jsonl");
    more.insert(more.end(), {"--data", folder.write("text", std::string(4000, 'x') + "y"), steps, "--json", log});
    train(options(more), stdout);
    const std::string lines = readAll(log);
    const auto last = nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
    return {last["planned_bytes"], last["peak_bytes"]};
  }
};

/// --json has the figures of the text, and components that add up.
TEST_F(EstimateTest, isJsonToo) {
  const std::string path = folder.path("estimate.json");
  const auto both = [&](Arguments more) {
    more.insert(more.end(), {"--json", path});
    const std::string text = estimated(more);
    return std::pair(text, nlohmann::json::parse(readAll(path)));
  };
  const auto [text, json] = both({"--steps=1000", "--price-per-hour=3", "--memory=1", "--optimizer=lion"});
  EXPECT_EQ(json["planned_bytes"], together(text));
  int64_t sum = 0;
  for (const char *part : {"weights", "frozen", "moments", "gradients", "activations", "scratch", "gaps", "other"})
    sum += json[std::string(part) + "_bytes"].get<int64_t>();
  EXPECT_EQ(sum, json["planned_bytes"]);
  EXPECT_EQ(json["largest_batch"], numberIn(text, "largest batch in 1.000 GB: ([0-9]+)"));
  EXPECT_EQ(json["memory_bytes"], 1000000000);
  EXPECT_EQ(json["optimizer"], "lion");
  if (!json["hours"].is_null()) { // where a limit of the machine is known
    EXPECT_EQ(json["bound"], "at least");
    EXPECT_NEAR(json["hours"].get<double>() * 3600e3, 1000 * json["least_step_ms"].get<double>(), 1e-6);
    EXPECT_NEAR(json["dollars"].get<double>(), 3 * json["hours"].get<double>(), 1e-12);
    EXPECT_NEAR(json["least_step_ms"].get<double>(),
                json["products_ms"].get<double>() + json["kernels_ms"].get<double>(), 1e-9);
  }
  const auto timed = both({"--minutes=30", "--ranks=4", "--lanes=4"}).second;
  EXPECT_EQ(timed["bound"], "exactly");
  EXPECT_DOUBLE_EQ(timed["hours"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(timed["dollars"].get<double>(), 4);
  expectContains(errorOf([&] { estimated({"--json", folder.path("absent/estimate.json")}); }), "absent");
}

/// The table of docs/RANKS.md: what a rank keeps and sends, of P parameters on N ranks.
TEST_F(EstimateTest, ranksShareOutStatesByTheFormulas) {
  constexpr int ranks = 4;
  const std::string path = folder.path("ranks.json");
  const std::pair<bool, int> runs[] = {{false, 0}, {false, 1}, {false, 2}, {true, 2}, {false, 3}, {true, 3}};
  for (const auto &[isBf16, zero] : runs) {
    const std::string text =
        estimated({"--width=128", "--batch=4", "--lanes=4", fmt::format("--ranks={}", ranks), "--json", path,
                   fmt::format("--zero={}", zero), isBf16 ? "--params=bf16" : "--params=f32"});
    const nlohmann::json json = nlohmann::json::parse(readAll(path));
    const auto bytes = [&](const char *name) { return json[name].get<double>(); };
    const double parameters = bytes("params"), width = isBf16 ? 2 : 4, others = (ranks - 1) / double(ranks);
    const double weights = width * parameters / (zero == 3 ? ranks : 1);
    EXPECT_NEAR(bytes("weights_bytes"), weights, 0.02 * weights) << zero;
    const double moments = 2 * width * parameters / (zero ? ranks : 1);
    EXPECT_NEAR(bytes("moments_bytes"), moments, 0.02 * moments) << zero;
    const double gradients = zero >= 2 ? 4 : 8, gathers = zero > 0 ? 1 : 0;
    if (zero < 3)
      EXPECT_NEAR(bytes("sent_bytes"), (gradients + gathers * width) * parameters * others, 0.02 * bytes("sent_bytes"))
          << zero;
    const auto planned = json["planned_bytes_by_zero"].get<std::vector<int64_t>>();
    ASSERT_EQ(planned.size(), 4u);
    EXPECT_EQ(planned[size_t(zero)], json["planned_bytes"]);
    expectContains(text, fmt::format("with --zero={} a rank needs {:.3f} MB", zero, bytes("planned_bytes") / 1e6));
    EXPECT_LT(planned[1], planned[0]);
    EXPECT_LE(planned[2], planned[1]);
    EXPECT_LT(planned[3], planned[2]);
  }
}

/// With --zero=3 a lane gathers what its forward reads, and again what its backward reads: all but what is only added.
/// Where the two meet, a window of parameters serves both.
TEST_F(EstimateTest, ranksGatherParametersByTheFormula) {
  constexpr int ranks = 4, width = 128, positions = 64;
  const std::string path = folder.path("ranks.json");
  for (const int layers : {2, 4})
    for (const int element : {4, 2}) {
      const auto sent = [&](const char *bucket) {
        estimated({fmt::format("--layers={}", layers), fmt::format("--width={}", width), bucket, "--zero=3",
                   fmt::format("--seq={}", positions), "--batch=4", "--lanes=4", fmt::format("--ranks={}", ranks),
                   "--json", path, element == 2 ? "--params=bf16" : "--params=f32"});
        return nlohmann::json::parse(readAll(path))["sent_bytes"].get<double>();
      };
      const double alone = sent("-fbucket=1");
      const double parameters = nlohmann::json::parse(readAll(path))["params"], others = (ranks - 1) / double(ranks);
      const int biases = 11 * width; // of a layer: 3 + 1 + 4 + 1 of matmuls, 2 of layer norms
      const double added = width * positions + layers * biases + width;
      const double formula = (4 * parameters + element * (2 * parameters - added)) * others;
      EXPECT_NEAR(alone, formula, 0.01 * formula) << layers << " layers, " << element << " bytes";
      const double usual = sent("-fbucket=25MiB"), window = element * parameters / 8 * others;
      EXPECT_LE(usual, alone);
      EXPECT_GE(usual, alone - window);
      EXPECT_EQ(usual < 0.99 * alone, layers == 4) << "a large matrix is gathered once: the last of four layers fits";
    }
}

TEST_F(EstimateTest, choosesTheFirstStageThatFits) {
  const std::string path = folder.path("auto.json");
  const auto chosen = [&](const std::string &gigabytes) {
    return estimated({"--batch=4", "--lanes=4", "--ranks=4", "--zero=auto", "--json", path, "--memory=" + gigabytes});
  };
  expectContains(chosen("1"), ", which fits in 1000.000 MB");
  const nlohmann::json json = nlohmann::json::parse(readAll(path));
  EXPECT_EQ(json["zero"], 0);
  const auto planned = json["planned_bytes_by_zero"].get<std::vector<int64_t>>();
  for (size_t zero = 1; zero < planned.size(); ++zero) {
    expectContains(chosen(fmt::format("{:.9f}", double(planned[zero]) / 1e9)), ", which fits in");
    EXPECT_EQ(nlohmann::json::parse(readAll(path))["zero"], zero);
  }
  expectContains(chosen("0.0001"), "; none fits in 0.100 MB, and stage 3 needs least");
}

TEST_F(EstimateTest, saysTheBytesOfTheRealRun) {
  for (const Arguments &more : {Arguments{"--batch=4"}, Arguments{"--batch=3", "--accumulate=2", "--optimizer=muon"},
                                Arguments{"--batch=2", "--params=bf16", "--dtype=bf16", "--dropout=0.1"},
                                Arguments{"--batch=2", "--dtype=f16", "--optimizer=adafactor"}}) {
    const std::string text = estimated(more);
    EXPECT_EQ(together(text), ofARun(more).first) << text;
  }
}

TEST_F(EstimateTest, evaluationKeepsNoBatchWhileStepsRun) {
  const auto [planned, counted] = ofARun({"--batch=4", "--eval-every=1", "--eval-batches=1"}, "--steps=3");
  constexpr int64_t ownBytes = 256; // at most, of the function that evaluates
  EXPECT_GE(counted, planned);
  EXPECT_LE(counted - planned, ownBytes);
}

TEST_F(EstimateTest, componentsAddUp) {
  const std::string text = estimated({"--batch=1"});
  std::istringstream lines(text);
  std::map<std::string, double> rows;
  const std::regex row("  ([a-z ,']+?) +([0-9.]+) MB");
  std::smatch found;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, found, row))
      rows[found[1]] = std::stod(found[2]);
  for (const char *name : {"weights", "moments of the optimizer", "gradients that updates wait for",
                           "activations and their gradients", "inputs, outputs, constants", "together"})
    EXPECT_TRUE(rows.contains(name)) << name << "\n" << text;
  EXPECT_NEAR(rows["moments of the optimizer"], 2 * rows["weights"], 0.002) << "AdamW has two";
  double sum = 0;
  for (const auto &[name, bytes] : rows)
    sum += name == "together" ? 0 : bytes;
  EXPECT_NEAR(sum, rows["together"], 0.001 * double(rows.size()));
  EXPECT_NE(text.find("a step takes at least"), std::string::npos) << text;
}

TEST_F(EstimateTest, theLargestBatchFitsAndOneRowMoreDoesNot) {
  for (const char *limit : {"0.002", "0.0131", "0.05"}) {
    const std::string text = estimated({"--batch=4", std::string("--memory=") + limit});
    const int64_t largest = numberIn(text, "the largest batch in [0-9.]+ GB: ([0-9]+)");
    const auto bytes = int64_t(std::stod(limit) * 1e9);
    ASSERT_GT(largest, 0) << text;
    EXPECT_LE(together(estimated({"--batch=" + std::to_string(largest)})), bytes) << text;
    EXPECT_GT(together(estimated({"--batch=" + std::to_string(largest + 1)})), bytes) << text;
  }
  EXPECT_NE(estimated({"--batch=4", "--memory=0.0001"}).find("not even a batch of one row fits in 0.000 GB"),
            std::string::npos);
}

TEST_F(EstimateTest, aRunTakesTheLargestBatchThatFits) {
  for (const char *remat : {"--remat=none", "--remat=block"}) {
    const auto [planned, counted] = ofARun({"--batch=auto", "--memory-limit=3MiB", remat});
    EXPECT_EQ(planned, counted);
    EXPECT_LE(planned, 3 << 20);
    const TrainOptions given = options({"--batch=auto", "--memory-limit=3MiB", remat, "--data=x"});
    const int64_t largest = largestBatch(given, chooseDevice("cpu"), {});
    EXPECT_EQ(together(estimated({"--batch=" + std::to_string(largest), remat})), planned);
    EXPECT_GT(together(estimated({"--batch=" + std::to_string(largest + 1), remat})), 3 << 20);
  }
  EXPECT_THROW(ofARun({"--batch=auto", "--memory-limit=4KiB"}), Error);
}

/// The hours and dollars of the last line, and the line itself.
struct Price {
  double hours = -1, dollars = -1;
  std::string line;
};

Price priceIn(const std::string &text) {
  const size_t basis = text.rfind('\n', text.size() - 2);
  const std::string line = text.substr(text.rfind('\n', basis - 1) + 1); // and what it is based on
  std::smatch found;
  if (!std::regex_search(line, found,
                         std::regex(": (?:at least |at most )?([0-9.]+) processor-hours, ([0-9.]+) dollars")))
    return {.line = line};
  return {std::stod(found[1]), std::stod(found[2]), line};
}

TEST_F(EstimateTest, saysHoursAndPriceOfTheRun) {
  const std::string text = estimated({"--batch=4", "--steps=1000000"});
  const Price million = priceIn(text);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("a step takes at least ([0-9.e-]+) ms"))) << text;
  const double hours = std::stod(found[1]) / 1e3 * 1e6 / 3600;
  EXPECT_NEAR(million.hours, hours, 0.02 * hours) << text;
  EXPECT_NEAR(million.dollars, 2 * million.hours, 0.02 * million.dollars + 0.005) << "two dollars an hour";
  expectContains(million.line, "1000000 steps: at least ");
  expectContains(million.line, "dollars at 2 an hour\n  (by the least time of a step, so a real run takes longer; ");
  // By the clock it is exact, whatever is known of steps.
  const Price clock = priceIn(estimated({"--batch=4", "--minutes=90", "--price-per-hour=0.5"}));
  EXPECT_EQ(clock.line,
            "90 minutes: 1.50 processor-hours, 0.750 dollars at 0.5 an hour\n  (by the clock; without compilation)\n");
  // Whichever is over first.
  EXPECT_TRUE(priceIn(estimated({"--batch=4", "--minutes=90", "--steps=1"})).line.starts_with("1 step: at least "));
  EXPECT_TRUE(priceIn(estimated({"--batch=4", "--minutes=0.001", "--steps=1000000000000"}))
                  .line.starts_with("0.001 minutes or 1000000000000 steps: "));
  const Price free = priceIn(estimated({"--batch=4", "--price-per-hour=0"}));
  expectContains(free.line, "1000 steps: "); // the preset's length
  EXPECT_EQ(free.dollars, 0);
  const Price ranks = priceIn(estimated({"--batch=8", "--ranks=4", "--minutes=60"}));
  expectContains(ranks.line, "60 minutes of 4 ranks: 4.00 processor-hours, 8.00 dollars");
}

TEST_F(EstimateTest, takesNoMemoryForTheWeights) {
  const int64_t before = runtime::countedPeakBytes();
  const std::string text = estimated({"--batch=1"});
  EXPECT_LT(runtime::countedPeakBytes() - before, together(text)) << "the arena is not made";
  EXPECT_NE(text.find("0.03 M parameters in f32, adamw; batch 1 x 16, products in f32\n"), std::string::npos) << text;
}

TEST(EstimateOptions, whatBelongsTogether) {
  const auto messageOf = [](Arguments arguments) { return parseTrainOptions(arguments).message; };
  EXPECT_EQ(messageOf({"--memory=1", "--data", "x"}), "--memory needs --estimate");
  EXPECT_EQ(messageOf({"--estimate", "--generate=1", "--init", "x"}),
            "--estimate cannot be given with --generate, which trains nothing");
  EXPECT_TRUE(parseTrainOptions({"--estimate"}).options) << "no data is needed";
  EXPECT_EQ(messageOf({"--price-per-hour=1", "--data", "x"}), "--price-per-hour needs --estimate");
  for (const std::string bad : {"-1", "nan", "inf", "1e7", "", "2$", "-0.01"})
    EXPECT_EQ(messageOf({"--estimate", "--price-per-hour", bad}),
              "--price-per-hour: `" + bad + "` is given, a number of dollars from 0 to 1000000 is expected");
}

TEST_F(EstimateTest, aClusterIsATableOverItsRanks) {
  const auto rowsOf = [&](const std::string &bandwidth, std::string &text) {
    const std::string file = folder.write(
        "cluster.json", R"({"name": "a few", "processors_per_node": 2, "inside": {"gigabytes_per_second": )" +
                            bandwidth + R"(}, "between": {"gigabytes_per_second": )" + bandwidth +
                            R"(}, "memory_gigabytes": 1, "dollars_per_hour": 3, "step_ms": 10,
                            "hours_between_failures": 24, "restart_minutes": 6})");
    text = estimated({"--batch=24", "--lanes=12", "--ranks=6", "--cluster", file, "--json", folder.path("rows.jsonl"),
                      "--plot", folder.path("rows.svg"), "--checkpoint-every=60000", "--checkpoint", folder.path("c")});
    std::vector<nlohmann::json> rows;
    std::istringstream lines(readAll(folder.path("rows.jsonl")));
    for (std::string line; std::getline(lines, line);)
      rows.push_back(nlohmann::json::parse(line));
    return rows;
  };
  std::string text, slowText;
  const auto fast = rowsOf("1000", text), slow = rowsOf("0.01", slowText);
  ASSERT_EQ(fast.size(), 4u); // 1, 2, 4, 6
  for (size_t i = 0; i < fast.size(); ++i) {
    EXPECT_EQ(fast[i]["ranks"], std::vector<int>({1, 2, 4, 6})[i]);
    EXPECT_EQ(fast[i]["nodes"], std::vector<int>({1, 1, 2, 3})[i]);
    EXPECT_EQ(fast[i]["compute_seconds"], 0.01);
    EXPECT_GT(fast[i]["efficiency"], 0.99);
    EXPECT_LE(slow[i]["exposed_seconds"].get<double>(), slow[i]["transfer_seconds"].get<double>() + 1e-12);
    expectContains(text, fmt::format("\n  {:>6} {:>6} ", fast[i]["ranks"].get<int>(), fast[i]["nodes"].get<int>()));
  }
  EXPECT_EQ(slow[0]["exposed_seconds"], 0);
  EXPECT_GT(slow[3]["exposed_seconds"], slow[1]["exposed_seconds"]);
  EXPECT_LT(slow[3]["efficiency"], 0.9);
  // Six failures in 24 hours, of 6 minutes and half of 60000 steps of 10 ms each: 11 minutes.
  EXPECT_NEAR(fast[3]["failures_per_day"].get<double>(), 6, 1e-9);
  EXPECT_NEAR(fast[3]["lost_share"].get<double>(), 66.0 / (24 * 60 + 66), 1e-3);
  EXPECT_NEAR(fast[3]["tokens_per_day"].get<double>(), 24 * 16 / 0.01 * 86400 * (1 - 66.0 / 1506), 1e7);
  expectContains(text, "6 ranks fail every 4 hours; a failure costs 11 minutes of all, 3.3 dollars");
  expectContains(text, "4 x 16 tokens a step each");
  const std::string picture = readAll(folder.path("rows.svg"));
  EXPECT_TRUE(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
  EXPECT_NE(picture.find("6 ranks: "), std::string::npos);
  // What a rank needs is what two ranks with its rows need.
  const int64_t planned = together(estimated({"--batch=8", "--lanes=4", "--ranks=2"}));
  expectContains(text, fmt::format("of 1.000 GB: {:.3f} GB; with states shared out", double(planned) / 1e9));
}

/// What became of the speed of torchtitan's Llama 3.1 8B on more GPUs (its benchmarks/: fully sharded, two rows of 8192
/// tokens each, nodes of 8 with 400 Gbit/s a GPU): 97.3 % of 8 H100 on 128, 98.3 % of 32 H200 on 64. Links have the
/// latencies that NCCL reckons with; a bucket has a block's parameters, as there. Only the rate on the few is given.
TEST_F(EstimateTest, scalesAsWasPublished) {
  const auto seconds = [&](double compute) {
    const std::string cluster =
        folder.write("cluster.json",
                     fmt::format(R"({{"name": "GPUs", "processors_per_node": 8, "memory_gigabytes": 96, "step_ms": {},
                                         "inside": {{"gigabytes_per_second": 450, "start_us": 8.4, "hop_us": 3.4}},
                                         "between": {{"gigabytes_per_second": 50, "start_us": 8.4, "hop_us": 14}}}})",
                                 1e3 * compute));
    const ParsedOptions parsed =
        parseTrainOptions({"--quiet", "--device=cpu", "--model=llama-160m", "--batch=256", "--seq=8192", "--lanes=128",
                           "--ranks=128", "--zero=3", "--params=bf16", "--dtype=bf16", "-fbucket=450MiB", "--estimate",
                           "--cluster", cluster, "--json", folder.path("rows.jsonl")});
    EXPECT_TRUE(parsed.options) << parsed.message;
    TrainOptions ofLlama = *parsed.options;
    ofLlama.config = LlamaConfig{.layers = 32,
                                 .heads = 32,
                                 .keyValueHeads = 8,
                                 .headSize = 128,
                                 .width = 4096,
                                 .inner = 14336,
                                 .sequence = 8192,
                                 .vocab = 128256,
                                 .tied = false};
    std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
    estimate(ofLlama, output);
    std::fclose(output);
    std::map<int, double> found;
    std::istringstream lines(readAll(folder.path("rows.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      found[row["ranks"]] = row["step_seconds"];
    }
    return found;
  };
  constexpr double tokens = 2 * 8192;
  for (const auto &[few, many, rateOfFew, rateOfMany] :
       {std::tuple{8, 128, 5762.0, 5605.0}, {32, 64, 10938.0, 10753.0}}) {
    const double whole = tokens / rateOfFew, exposed = seconds(whole)[few] - whole;
    std::map<int, double> step = seconds(whole - exposed);
    EXPECT_NEAR(step[few], whole, 0.005 * whole);
    EXPECT_NEAR(step[few] / step[many], rateOfMany / rateOfFew, 0.01) << few << " and " << many;
  }
}

} // namespace
} // namespace tcc::models
