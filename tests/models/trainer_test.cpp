// Whole runs of the trainer in a folder of their own: log, gradients, checkpoint, graph, sample, refusals.
#include "frontend/safetensors.h"
#include "frontend/shape.h"
#include "models/checkpoint.h"
#include "models/generate.h"
#include "models/model.h"
#include "models/tokenizer_files.h"
#include "models/trainer.h"
#include "test_files.h"

#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

class TrainerTest : public testing::Test {
protected:
  TemporaryFolder folder;

  /// Trains on an easy text with a small model and returns what was generated.
  std::string run(const Arguments &more) {
    Arguments arguments = {"--data",     folder.write("text.txt", easyText(400)),
                           "--quiet",    "--threads=1",
                           "--layers=1", "--heads=2",
                           "--width=16", "--seq=16",
                           "--batch=4"};
    if (std::find(more.begin(), more.end(), "--init") != more.end())
      arguments.erase(arguments.begin() + 4, arguments.begin() + 7);
    if (std::find(more.begin(), more.end(), "--data") != more.end())
      arguments.erase(arguments.begin(), arguments.begin() + 2);
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

  std::vector<Json> log(const std::string &name) { return jsonLines(readAll(folder.path(name))); }
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

  const ModelFolder saved(folder.path("saved"));
  EXPECT_TRUE(saved.config() == (Gpt2Config{.layers = 1, .heads = 2, .width = 16, .sequence = 16, .vocab = 256}));
  const SafetensorsFile gradients(folder.path("grads"));
  for (const ParameterSpec &parameter : saved.config().parameters()) {
    ASSERT_TRUE(gradients.find(parameter.name)) << parameter.name;
    EXPECT_EQ(gradients.find(parameter.name)->shape, parameter.shape);
  }
  expectContains(readAll(folder.path("step.graph")), "tcc.gradient");
  EXPECT_GE(sample.size(), 20u);
}

TEST_F(TrainerTest, dumpedGradientsAreThoseOfTheFirstStep) {
  for (const std::string dropout : {"0", "0.3"}) {
    run({"--steps=1", "--clip=0", "--lanes=2", "--dropout=" + dropout, "--json", folder.path("log.jsonl"),
         "--dump-grads", folder.path("grads")});
    const SafetensorsFile gradients(folder.path("grads"));
    double squares = 0;
    for (const TensorEntry &entry : gradients.tensors()) {
      std::vector<float> values(size_t(entry.elements()));
      gradients.readFloats(entry, values);
      for (float value : values)
        squares += double(value) * value;
    }
    const double norm = log("log.jsonl")[0]["norm"];
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm) << "with dropout " << dropout;
  }
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

TEST_F(TrainerTest, everyKernelAndProductHasAName) {
  run({"--steps=3", "--layers=2", "--profile", folder.path("profile.json"), "--json", folder.path("log.jsonl")});
  std::map<std::string, int> seen;
  const Json trace = Json::parse(readAll(folder.path("profile.json")));
  for (const Json &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["args"].contains("flops") && event["cat"] != "copy" && event["cat"] != "step")
      ++seen[event["name"].get<std::string>()];
  EXPECT_GT(seen.size(), 40u);
  for (const auto &[name, count] : seen) {
    EXPECT_NE(name.find('.'), std::string::npos) << name << " has no scope";
    EXPECT_EQ(count % 2, 0) << name << ": steps 2 and 3, without the cold one";
  }
  for (const char *name : {"h.0.mlp.gelu+bias", "h.1.mlp.gelu+bias", "h.1.mlp.c_fc.linear: matmul 64x64x16 nn",
                           "h.0.attn.c_proj.weight.grad: matmul 16x16x64 tn"})
    EXPECT_TRUE(seen.contains(name)) << name;
  EXPECT_TRUE(std::ranges::any_of(seen, [](const auto &row) { return row.first.starts_with("*.adamw"); }));
  for (const Json &line : log("log.jsonl"))
    EXPECT_GT(line["mfu"].get<double>(), 0) << "every line has the share";
}

TEST_F(TrainerTest, goesOnFromAFolder) {
  run({"--steps=20", "--lr=1e-2", "--json", folder.path("first.jsonl"), "--save", folder.path("saved")});
  run({"--init", folder.path("saved"), "--steps=3", "--lr=0", "--json", folder.path("second.jsonl"), "--save",
       folder.path("again")});
  EXPECT_LT(log("second.jsonl")[0]["loss"].get<double>(), 4);
  EXPECT_EQ(readAll(folder.path("saved/model.safetensors")), readAll(folder.path("again/model.safetensors")))
      << "a learning rate of 0 changes no bit";
}

TEST_F(TrainerTest, startsFromTheWeightsOfARun) {
  run({"--steps=20", "--lr=1e-2", "--checkpoint", folder.path("run"), "--save", folder.path("saved")});
  const auto tuned = [&](const std::string &init, const std::string &name) {
    run({"--init", folder.path(init), "--steps=4", "--lr=1e-3", "--json", folder.path(name), "--save",
         folder.path(name + ".weights")});
    return readAll(folder.path(name + ".weights/model.safetensors"));
  };
  const std::string fromFolder = tuned("saved", "a");
  EXPECT_EQ(tuned("run", "b"), fromFolder) << "weights alone are taken, its moments begin as zeros";
  EXPECT_EQ(log("b")[0]["lr"], log("a")[0]["lr"]) << "its schedule begins anew";
  EXPECT_EQ(log("b").back()["model"], "run/step-000000020");
  EXPECT_EQ(tuned("run/step-000000020", "c"), fromFolder);
  EXPECT_NE(readAll(folder.path("saved/model.safetensors")), fromFolder);
  // A run of its own, which is resumed whatever the first one does meanwhile.
  const Arguments own = {"--init",       folder.path("run"), "--lr=1e-3", "--schedule=constant",
                         "--checkpoint", folder.path("own")};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), own.begin(), own.end());
    run(more);
  };
  with({"--steps=2"});
  run({"--steps=22", "--checkpoint", folder.path("run"), "--resume", "--lr=1e-2"});
  with({"--steps=4", "--resume"});
  EXPECT_TRUE(std::filesystem::exists(folder.path("own/step-000000004")));
  expectContains(errorOf([&] { with({"--steps=4"}); }), "there are checkpoints up to step 4");
  // Weights of other shapes than its config.json says.
  std::filesystem::copy(folder.path("run/step-000000020"), folder.path("other"));
  std::string config = readAll(folder.path("other/config.json"));
  config.replace(config.find("\"n_embd\": 16"), 12, "\"n_embd\": 32");
  folder.write("other/config.json", config);
  expectContains(errorOf([&] { run({"--init", folder.path("other"), "--steps=1"}); }), "has shape [");
  std::filesystem::create_directory(folder.path("empty"));
  expectContains(errorOf([&] { run({"--init", folder.path("empty"), "--steps=1"}); }),
                 "empty: the folder has neither config.json nor checkpoints of a run (step-…)");
}

TEST_F(TrainerTest, aFoldersDropoutIsUsed) {
  const auto losses = [&](const std::string &init, const Arguments &more) {
    Arguments all = {"--init", folder.path(init),        "--steps=3", "--lr=1e-2",
                     "--json", folder.path("log.jsonl"), "--save",    folder.path("again")};
    all.insert(all.end(), more.begin(), more.end());
    run(all);
    std::vector<double> values;
    for (const Json &line : log("log.jsonl"))
      if (line.contains("loss"))
        values.push_back(line["loss"]);
    return values;
  };
  const auto withRates = [&](const std::string &name, const Json &rates) {
    std::filesystem::copy(folder.path("saved"), folder.path(name));
    Json config = Json::parse(readAll(folder.path(name + "/config.json")));
    config.update(rates);
    folder.write(name + "/config.json", config.dump());
    return name;
  };
  const auto rateOf = [&](const char *key) {
    return Json::parse(readAll(folder.path("again/config.json")))[key].get<double>();
  };
  run({"--steps=5", "--save", folder.path("saved")});
  const std::string each = withRates("each", {{"embd_pdrop", 0.3}, {"attn_pdrop", 0.3}, {"resid_pdrop", 0.3}}),
                    one = withRates("one", {{"attn_pdrop", 0.3}});
  const std::vector<double> none = losses("saved", {}), three = losses(each, {});
  EXPECT_EQ(rateOf("embd_pdrop"), 0.3) << "it travels on";
  EXPECT_EQ(three, losses("saved", {"--dropout=0.3"}));
  EXPECT_NE(three, none);
  EXPECT_EQ(none, losses(each, {"--dropout=0"}));
  EXPECT_NE(losses(one, {}), none);
  EXPECT_NE(losses(one, {}), three);
  // A run of a preset leaves the rates that it had.
  run({"--steps=1", "--dropout=0.25", "--save", folder.path("again")});
  EXPECT_EQ(rateOf("resid_pdrop"), 0.25);

  std::filesystem::remove_all(folder.path("saved"));
  run({"--model=llama-baby", "--kv-heads=1", "--steps=5", "--save", folder.path("saved")});
  const std::vector<double> plain = losses("saved", {}),
                            dropped = losses(withRates("llama", {{"attention_dropout", 0.3}}), {});
  EXPECT_NE(dropped, plain);
  EXPECT_EQ(dropped, losses("saved", {"--dropout=0.3"}));
}

TEST_F(TrainerTest, untiedHeadsAndBiasesOfTheMlpTrainAndComeBack) {
  const auto trains = [&](const ModelConfig &config, const std::vector<std::string> &names) {
    Model model(config);
    model.initialize(1);
    writeModelFolder(folder.path("first"), config, model.named());
    run({"--init", folder.path("first"), "--steps=12", "--lr=1e-2", "--json", folder.path("log.jsonl"), "--save",
         folder.path("second")});
    const std::vector<Json> lines = log("log.jsonl");
    EXPECT_LT(lines[11]["loss"].get<double>(), lines[0]["loss"].get<double>() - 0.5);
    const ModelFolder saved(folder.path("second"));
    EXPECT_TRUE(saved.config() == config) << saved.config().describe();
    const SafetensorsFile before(folder.path("first/model.safetensors")),
        after(folder.path("second/model.safetensors"));
    for (const std::string &name : names) {
      ASSERT_TRUE(after.find(name)) << name;
      const auto a = before.bytes(*before.find(name)), b = after.bytes(*after.find(name));
      EXPECT_FALSE(std::ranges::equal(a, b)) << name << " was not trained";
    }
    std::filesystem::remove_all(folder.path("first"));
    std::filesystem::remove_all(folder.path("second"));
  };
  trains(Gpt2Config{.layers = 1, .heads = 2, .width = 16, .sequence = 16, .vocab = 256, .tied = false},
         {"wte.weight", "lm_head.weight"});
  trains(Gpt2Config{.layers = 1, .heads = 2, .width = 16, .sequence = 16, .vocab = 256, .separate = true},
         {"h.0.attn.c_q.weight", "h.0.attn.c_k.weight", "h.0.attn.c_v.weight"});
  trains(LlamaConfig{.layers = 1, .heads = 2, .headSize = 8, .width = 16, .inner = 32, .sequence = 16, .mlpBias = true},
         {"model.layers.0.mlp.gate_proj.bias", "model.layers.0.mlp.up_proj.bias", "model.layers.0.mlp.down_proj.bias"});
}

TEST_F(TrainerTest, heldOutTokensAreEvaluated) {
  run({"--steps=5", "--eval-every=2", "--eval-batches=3", "--json", folder.path("log.jsonl")});
  const std::vector<Json> lines = log("log.jsonl");
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(lines[i].contains("val_loss"), i == 1 || i >= 3) << "every two steps and at the end; step " << i;
  EXPECT_EQ(lines[5]["val_loss_last"], lines[4]["val_loss"]);
  EXPECT_NEAR(lines[1]["val_loss"].get<double>(), std::log(256.0), 0.3);

  // A file of its own: nothing of the data is held out, and the loss is that file's.
  std::string other;
  for (int i = 0; i < 100; ++i)
    other += "zyxwvuts ";
  run({"--steps=60", "--lr=1e-2", "--eval-every=60", "--eval-data", folder.write("other.txt", other), "--json",
       folder.path("other.jsonl")});
  const Json last = log("other.jsonl")[59];
  EXPECT_GT(last["val_loss"].get<double>(), last["loss"].get<double>() + 1) << "it has not learnt that text";
  expectContains(errorOf([&] { run({"--eval-every=2", "--batch=700"}); }), "and one to evaluate need");
}

TEST_F(TrainerTest, accumulatedBatchesAreOneLargeBatch) {
  const auto losses = [&](const std::string &name, Arguments more) {
    more.insert(more.end(), {"--steps=8", "--lr=1e-2", "--order=sequential", "--json", folder.path(name), "--save",
                             folder.path(name + "-saved")});
    run(more);
    return log(name);
  };
  for (const char *dropout : {"--dropout=0", "--dropout=0.3"}) {
    const std::vector<Json> one = losses("one", {"--batch=8", dropout}),
                            four = losses("four", {"--batch=2", "--accumulate=4", dropout});
    ASSERT_EQ(one.size(), four.size());
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(one[i]["loss"].get<double>(), four[i]["loss"].get<double>(), 1e-4) << dropout << ", step " << i;
      EXPECT_NEAR(one[i]["norm"].get<double>(), four[i]["norm"].get<double>(), 1e-3) << dropout << ", step " << i;
      EXPECT_EQ(one[i]["tokens"], four[i]["tokens"]);
    }
    EXPECT_EQ(four[8]["recompiles"], 0) << "one step, compiled once";
  }
}

TEST_F(TrainerTest, aResumedRunHasTheBitsOfOneThatNeverStopped) {
  // Stopped by its number of steps; a constant rate does not depend on that.
  const Arguments common = {"--lr=1e-2", "--schedule=constant", "--accumulate=2", "--checkpoint"};
  const auto with = [&](const std::string &name, Arguments more) {
    more.insert(more.begin(), common.begin(), common.end());
    more.insert(more.begin() + std::ptrdiff_t(common.size()), folder.path(name));
    run(more);
  };
  with("whole", {"--steps=12"});
  with("parts", {"--steps=5"});
  with("parts", {"--steps=12", "--resume"});
  for (const char *file : {"model.safetensors", "optimizer.safetensors", "run.json", "manifest.json", "config.json"})
    EXPECT_EQ(readAll(folder.path("whole/step-000000012/" + std::string(file))),
              readAll(folder.path("parts/step-000000012/" + std::string(file))))
        << file;
  // A checkpoint is a folder of weights as well.
  run({"--init", folder.path("whole/step-000000012"), "--steps=1", "--lr=0", "--save", folder.path("saved")});
  EXPECT_EQ(readAll(folder.path("saved/model.safetensors")),
            readAll(folder.path("whole/step-000000012/model.safetensors")));
}

TEST_F(TrainerTest, leavesWhatCanBeLookedAt) {
  run({"--steps=6", "--eval-every=3", "--json", folder.path("log.jsonl"), "--hash-every=4", "--plot",
       folder.path("loss.svg"), "--tensorboard", folder.path("board")});
  const std::vector<Json> lines = log("log.jsonl");
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(lines[i].contains("parameters"), i == 3 || i == 5) << i;
  EXPECT_EQ(lines[3]["parameters"].size(), 16u);
  EXPECT_NE(lines[3]["parameters"]["wte.weight"], lines[5]["parameters"]["wte.weight"]);
  expectContains(readAll(folder.path("loss.svg")), "held out");
  EXPECT_FALSE(std::filesystem::is_empty(folder.path("board")));
}

TEST_F(TrainerTest, learnsATextByATokenizer) {
  ::setenv("XDG_CACHE_HOME", folder.path("cache").c_str(), 1);
  const std::string tokenizer = "tests/models/tokenizer_samples/gpt2";
  run({"--tokenizer", tokenizer, "--dump-tokens", folder.path("tokens.bin")});
  EXPECT_GT(std::filesystem::file_size(folder.path("tokens.bin")), 1024u + 4000u);
  for (const char *name : {"adamw", "muon"})
    run({"--tokenizer", tokenizer, "--steps=30", "--lr=1e-2", "--optimizer", name, "--json", folder.path("log.jsonl"),
         "--save", folder.path("saved")});
  EXPECT_LT(log("log.jsonl")[29]["loss"].get<double>(), 4);
  EXPECT_EQ(ModelFolder(folder.path("saved")).config().vocabulary(), 340);
  const ParsedOptions parsed = parseTrainOptions({"--init", folder.path("saved"), "--tokenizer", tokenizer, "-q",
                                                  "--generate=8", "--prompt=the cat", "--threads=1"});
  ASSERT_TRUE(parsed.options) << parsed.message;
  std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
  generate(*parsed.options, output);
  std::fclose(output);
  EXPECT_TRUE(readAll(folder.path("out")).starts_with("the cat")) << readAll(folder.path("out"));
}

TEST_F(TrainerTest, labelsAreWhatTheUserNamed) {
  ::setenv("XDG_CACHE_HOME", folder.path("cache").c_str(), 1);
  const Arguments seen = {"--tokenizer",
                          "tests/models/tokenizer_samples/gpt2",
                          "--steps=3",
                          "--profile",
                          folder.path("profile.json"),
                          "--plot",
                          folder.path("loss.svg"),
                          "--json",
                          folder.path("log.jsonl"),
                          "--save",
                          folder.path("saved")};
  run(seen);
  const std::string title = "baby on " + folder.path("text.txt");
  expectContains(readAll(folder.path("loss.svg")), ">" + title + "<");
  expectContains(readAll(folder.path("profile.json")), "\"" + title + "\"");
  for (const char *name : {"loss.svg", "profile.json"})
    EXPECT_EQ(readAll(folder.path(name)).find(folder.path("cache")), std::string::npos) << name;
  run({"--init", folder.path("saved/"), "--steps=2", "--plot", folder.path("loss.svg"), "--json",
       folder.path("log.jsonl")});
  EXPECT_EQ(log("log.jsonl").back()["model"], "saved");
  expectContains(readAll(folder.path("loss.svg")), ">saved on " + folder.path("text.txt") + "<");
  const std::string error =
      errorOf([&] { run({"--tokenizer", "tests/models/tokenizer_samples/gpt2", "--vocab=300"}); });
  expectContains(error, folder.path("text.txt") + ": token ");
  expectContains(error, "is outside the vocabulary of 300");
}

TEST_F(TrainerTest, aTokenizerTravelsWithTheWeights) {
  ::setenv("XDG_CACHE_HOME", folder.path("cache").c_str(), 1);
  const std::string tokenizer = "tests/models/tokenizer_samples/gpt2";
  const auto config = [&](const std::string &name) { return Json::parse(readAll(folder.path(name + "/config.json"))); };
  run({"--tokenizer", tokenizer, "--steps=3", "--save", folder.path("saved"), "--checkpoint", folder.path("kept")});
  const std::string json = readAll(folder.path("saved/tokenizer.json"));
  EXPECT_EQ(Tokenizer(folder.path("saved")).vocabulary(), 340);
  EXPECT_EQ(readAll(folder.path("kept/step-000000003/tokenizer.json")), json);
  const auto separator = Tokenizer(tokenizer).addedId("<|endoftext|>");
  for (const char *name : {"saved", "kept/step-000000003"}) {
    EXPECT_EQ(config(name)["bos_token_id"], *separator) << name;
    EXPECT_EQ(config(name)["eos_token_id"], *separator) << name;
  }

  // Texts are read by it again, and it travels on, beside an adapter too.
  const auto tokensOf = [&](const Arguments &more) {
    Arguments all = {"--init", folder.path("saved"), "--steps=2", "--lr=0", "--json", folder.path("log.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    run(all);
    return log("log.jsonl")[1]["loss"];
  };
  const Json given = tokensOf({"--tokenizer", tokenizer, "--save", folder.path("second")});
  EXPECT_EQ(tokensOf({"--save", folder.path("third")}), given);
  EXPECT_EQ(readAll(folder.path("third/tokenizer.json")), json);
  EXPECT_EQ(readAll(folder.path("third/config.json")), readAll(folder.path("saved/config.json")));
  tokensOf({"--lora=2", "--save", folder.path("adapter")});
  EXPECT_EQ(readAll(folder.path("adapter/tokenizer.json")), json);
  tokensOf({"--eval-every=1", "--eval-batches=1", "--eval-data",
            folder.write("other.txt", readAll(folder.path("text.txt")))});

  // One that is not read here: data of tokens need none, texts do.
  folder.write("saved/tokenizer.json", R"({"model": {"type": "Unigram"}})");
  expectContains(errorOf([&] { tokensOf({}); }), "a tokenizer of kind `Unigram`: only BPE");
  const std::string bytes(4000, '\1'); // token 257, again and again
  EXPECT_EQ(errorOf([&] { tokensOf({"--data", folder.write("data.bin", bytes), "--save", folder.path("fourth")}); }),
            "");
  EXPECT_EQ(readAll(folder.path("fourth/tokenizer.json")), R"({"model": {"type": "Unigram"}})");
}

TEST_F(TrainerTest, bytesTravelAsATokenizerAndStayBytes) {
  run({"--steps=3", "--save", folder.path("saved")});
  EXPECT_TRUE(Tokenizer(folder.path("saved")).isOfBytes());
  const Json config = Json::parse(readAll(folder.path("saved/config.json")));
  EXPECT_TRUE(config.at("bos_token_id").is_null());
  EXPECT_TRUE(config.at("eos_token_id").is_null());
  // Bytes that are no UTF-8 are read as they are, with the file of the tokenizer and without.
  std::string latin;
  for (int i = 0; i < 400; ++i)
    latin += "caf\xe9 na\xefve ";
  const auto loss = [&] {
    run({"--init", folder.path("saved"), "--data", folder.write("latin.txt", latin), "--steps=1", "--lr=0", "--json",
         folder.path("log.jsonl")});
    return log("log.jsonl")[0]["loss"];
  };
  const Json with = loss();
  std::filesystem::remove(folder.path("saved/tokenizer.json"));
  EXPECT_EQ(with, loss());
}

TEST_F(TrainerTest, generatesFromAFolderWithoutData) {
  run({"--steps=150", "--lr=1e-2", "--save", folder.path("saved")});
  const auto generated = [&](Arguments more) {
    more.insert(more.begin(),
                {"--init", folder.path("saved"), "--generate=60", "--prompt=the cat sat", "--quiet", "--threads=1"});
    const ParsedOptions parsed = parseTrainOptions(more);
    EXPECT_TRUE(parsed.options) << parsed.message;
    std::FILE *output = std::fopen(folder.path("out").c_str(), "w");
    generate(*parsed.options, output);
    std::fclose(output);
    return readAll(folder.path("out"));
  };
  const std::string text = generated({"--temperature=0"});
  EXPECT_EQ(text.size(), 11u + 60u + 1u);
  EXPECT_TRUE(text.starts_with("the cat sat")) << "the prompt is echoed";
  const size_t space = text.find(' ', 12);
  ASSERT_NE(space, std::string::npos) << text;
  EXPECT_EQ(generated({"--temperature=0", "--stop=zzz", "--stop", " "}), "the cat sat\n") << "it ends before the stop";
  EXPECT_EQ(generated({"--temperature=0", "--stop=" + text.substr(20, 3)}).size() <= 21, true);
  EXPECT_NE(generated({"--temperature=2"}), generated({"--temperature=2", "--seed=2"}));
  EXPECT_EQ(generated({"--temperature=2", "--top-p=1e-9"}), text) << "the likeliest alone";
}

TEST_F(TrainerTest, refusesWhatCannotBe) {
  run({"--steps=1", "--save", folder.path("saved")});
  expectContains(errorOf([&] { run({"--init", folder.path("saved"), "--seq=17"}); }), "--seq=17, but the model of");
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
