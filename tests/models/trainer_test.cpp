// Whole runs of the trainer in a folder of their own: log, gradients, checkpoint, graph, sample, refusals.
#include "frontend/shape.h"
#include "models/checkpoint.h"
#include "models/safetensors.h"
#include "models/trainer.h"
#include "test_files.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

class TrainerTest : public testing::Test {
protected:
  TemporaryFolder folder;

  /// Trains on an easy text with a small model and returns what was generated.
  std::string run(const Arguments &more) {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "the cat sat on the mat and the dog sat on the log. ";
    Arguments arguments = {"--data",     folder.write("text.txt", text),
                           "--quiet",    "--threads=1",
                           "--layers=1", "--heads=2",
                           "--width=16", "--seq=16",
                           "--batch=4"};
    if (std::find(more.begin(), more.end(), "--init") != more.end())
      arguments.erase(arguments.begin() + 4, arguments.begin() + 7);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ParsedOptions parsed = parseTrainOptions(arguments);
    if (!parsed.options) {
      ADD_FAILURE() << parsed.message;
      return "";
    }
    std::FILE *output = std::fopen(folder.path("sample.txt").c_str(), "w");
    try {
      train(*parsed.options, output);
    } catch (...) {
      std::fclose(output);
      throw;
    }
    std::fclose(output);
    return readAll(folder.path("sample.txt"));
  }

  std::vector<Json> log(const std::string &name) {
    std::vector<Json> lines;
    std::istringstream in(readAll(folder.path(name)));
    for (std::string line; std::getline(in, line);)
      lines.push_back(Json::parse(line));
    return lines;
  }
};

TEST_F(TrainerTest, aWholeRun) {
  const std::string sample =
      run({"--steps=30", "--lr=1e-2", "--json", folder.path("log.jsonl"), "--dump-grads", folder.path("grads"),
           "--emit-graph", folder.path("step.graph"), "--save", folder.path("saved"), "--sample=20"});
  const std::vector<Json> lines = log("log.jsonl");
  ASSERT_EQ(lines.size(), 31u);
  for (size_t i = 0; i < 30; ++i)
    EXPECT_EQ(lines[i]["step"], i);
  EXPECT_NEAR(lines[0]["loss"].get<double>(), std::log(256.0), 0.2);
  EXPECT_LT(lines[29]["loss"].get<double>(), 4) << "it learns";
  const Json &last = lines[30];
  EXPECT_EQ(last["loss_first"], lines[0]["loss"]);
  EXPECT_EQ(last["loss_last"], lines[29]["loss"]);
  EXPECT_EQ(last["batch"], 4);
  EXPECT_EQ(last["seq"], 16);
  EXPECT_EQ(last["recompiles"], 0);
  for (const char *key : {"kernels", "matmuls", "planned_bytes", "peak_bytes", "threads", "params", "compile_s"})
    EXPECT_GT(last[key].get<double>(), 0) << key;

  const Gpt2Folder saved(folder.path("saved"));
  EXPECT_EQ(saved.config(), (Gpt2Config{.layers = 1, .heads = 2, .width = 16, .sequence = 16, .vocab = 256}));
  const SafetensorsFile gradients(folder.path("grads"));
  for (const Gpt2Parameter &parameter : gpt2Parameters(saved.config())) {
    ASSERT_TRUE(gradients.find(parameter.name)) << parameter.name;
    EXPECT_EQ(gradients.find(parameter.name)->shape, parameter.shape);
  }
  expectContains(readAll(folder.path("step.graph")), "tcc.gradient");
  EXPECT_GE(sample.size(), 20u);
}

TEST_F(TrainerTest, learnsWithProductsOfBf16) {
  const auto losses = [&](const std::string &dtype) {
    run({"--steps=30", "--lr=1e-2", "--dtype=" + dtype, "--json", folder.path(dtype + ".jsonl")});
    std::vector<Json> lines = log(dtype + ".jsonl");
    EXPECT_EQ(lines.back()["dtype"], dtype);
    return lines;
  };
  const std::vector<Json> wide = losses("f32"), narrow = losses("bf16");
  ASSERT_EQ(narrow.size(), wide.size());
  for (size_t i = 0; i + 1 < wide.size(); ++i) {
    const double exactly = wide[i]["loss"].get<double>();
    EXPECT_NEAR(narrow[i]["loss"].get<double>(), exactly, 0.02 * exactly) << "step " << i;
  }
  EXPECT_NE(narrow[5]["loss"], wide[5]["loss"]) << "the products were not rounded";
}

TEST_F(TrainerTest, goesOnFromAFolder) {
  run({"--steps=20", "--lr=1e-2", "--json", folder.path("first.jsonl"), "--save", folder.path("saved")});
  run({"--init", folder.path("saved"), "--steps=3", "--lr=0", "--json", folder.path("second.jsonl"), "--save",
       folder.path("again")});
  EXPECT_LT(log("second.jsonl")[0]["loss"].get<double>(), 4);
  EXPECT_EQ(readAll(folder.path("saved/model.safetensors")), readAll(folder.path("again/model.safetensors")))
      << "a learning rate of 0 changes no bit";
}

TEST_F(TrainerTest, refusesWhatCannotBe) {
  run({"--steps=1", "--save", folder.path("saved")});
  expectContains(errorOf([&] { run({"--init", folder.path("saved"), "--seq=17"}); }), "position table");
  expectContains(errorOf([&] { run({"--init", folder.path("absent")}); }), "absent");
  expectContains(errorOf([&] { run({"--batch=100000"}); }), "one batch of 100000 x 16");
  expectContains(errorOf([&] { run({"--vocab=64"}); }), "outside the vocabulary of 64");
  expectContains(errorOf([&] { run({"--vocab=300", "--prompt=And", "--sample=4"}); }), "--prompt");
  expectContains(errorOf([&] { run({"--width=16384", "--layers=300"}); }), "this machine has");
  try {
    run({"--steps=1", "-fno-such-pass"});
    ADD_FAILURE() << "no error";
  } catch (const tcc::Error &error) {
    expectContains(error.what(), "such-pass");
  }
}

} // namespace
} // namespace tcc::models
