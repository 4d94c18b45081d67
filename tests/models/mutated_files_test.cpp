// Every reader of models/ is given damaged files. It gives a value or throws an Error; it never crashes, hangs, or
// takes more memory than the file's size explains.
#include "frontend/safetensors.h"
#include "models/adapter.h"
#include "models/checkpoint_store.h"
#include "models/data.h"
#include "models/loss_plot.h"
#include "models/model_config.h"
#include "models/run_comparison.h"
#include "models/run_state.h"
#include "models/tokenizer.h"
#include "models/weight_files.h"
#include "test_files.h"
#include "tests/mutate.h"
#include <functional>

using namespace tcc;
using namespace tcc::models;

namespace {

/// How many damaged copies of `original` the reader took, and how many it refused with an Error. Prints both and
/// the seed.
std::pair<int, int> readMutants(const std::string &original, const std::function<void(const std::string &path)> &read) {
  MemoryFile file;
  std::mt19937 random(static_cast<uint32_t>(original.size()));
  int taken = 0, refused = 0;
  for (int round = test::mutationRounds(2000); round > 0; --round) {
    std::string path = file.write(test::mutated(original, random));
    try {
      read(path);
      ++taken;
    } catch (const Error &) {
      ++refused;
    }
  }
  std::printf("seed %zu: %d taken, %d refused\n", original.size(), taken, refused);
  return {taken, refused};
}

std::string safetensors(const TemporaryFolder &folder) {
  std::vector<float> values(24, 1.5f);
  auto bytes = std::as_bytes(std::span(values));
  std::vector<TensorToWrite> tensors = {{"wte.weight", TensorDtype::F32, {4, 6}, bytes},
                                        {"h.0.ln_1.bias", TensorDtype::F32, {6}, bytes.first(24)}};
  writeSafetensors(folder.path("model.safetensors"), tensors, {{"note", "a text with \"quotes\""}});
  return readAll(folder.path("model.safetensors"));
}

TEST(MutatedFiles, Safetensors) {
  TemporaryFolder folder;
  auto [taken, refused] = readMutants(safetensors(folder), [](const std::string &path) {
    SafetensorsFile file(path);
    for (const TensorEntry &entry : file.tensors())
      if (entry.dtype == TensorDtype::F32) {
        std::vector<float> values(static_cast<size_t>(entry.elements()));
        file.readFloats(entry, values);
      }
  });
  EXPECT_GT(taken, 0); // where only a number is damaged, it is still a number
  EXPECT_GT(refused, taken / 10);
}

TEST(MutatedFiles, ShardsAndTheirIndex) {
  TemporaryFolder folder(memoryFolder());
  folder.write("model-00001-of-00001.safetensors", safetensors(folder));
  std::filesystem::remove(folder.path("model.safetensors"));
  std::string index =
      R"({"metadata": {"total_size": 120}, "weight_map": {"wte.weight": "model-00001-of-00001.safetensors",
    "h.0.ln_1.bias": "model-00001-of-00001.safetensors"}})";
  folder.write("model.safetensors.index.json", index);
  EXPECT_EQ(errorOf([&] { WeightFiles(folder.path("")); }), "");
  auto [taken, refused] = readMutants(index, [&](const std::string &path) {
    folder.write("model.safetensors.index.json", readAll(path));
    WeightFiles files(folder.path(""));
    EXPECT_LE(files.tensors().size(), 2u);
  });
  EXPECT_GT(refused, taken / 10);
}

TEST(MutatedFiles, Config) {
  TemporaryFolder folder;
  for (const char *preset : {"baby", "script-baby", "llama-baby"}) {
    writeConfig(folder.path("config.json"), *modelPreset(preset));
    auto [taken, refused] = readMutants(readAll(folder.path("config.json")), [](const std::string &path) {
      std::vector<std::string> notes;
      checkConfig(readConfig(path, &notes)); // what could be read must be a valid model
    });
    EXPECT_GT(refused, taken / 10);
  }
}

TEST(MutatedFiles, RunState) {
  TemporaryFolder folder;
  RunState state{
      .step = 12, .lossFirst = 5.5, .lossLast = 2.25, .seconds = 3.5, .identity = {{"model", "baby"}}, .settings = {}};
  writeRunState(folder.path("run.json"), state);
  auto [taken, refused] = readMutants(readAll(folder.path("run.json")),
                                      [](const std::string &path) { EXPECT_GE(readRunState(path).step, 0); });
  EXPECT_GT(refused, taken / 10);
}

TEST(MutatedFiles, TokenShards) {
  for (bool wide : {false, true}) {
    std::vector<int32_t> header(256, 0);
    header[0] = wide ? 20240801 : 20240520;
    header[1] = wide ? 7 : 1;
    header[2] = 40;
    std::string file = bytesOf(header) + std::string(wide ? 160 : 80, '\x01');
    if (wide)
      file = bytesOf(header) + bytesOf(std::vector<uint32_t>(40, 7));
    auto [taken, refused] = readMutants(file, [](const std::string &path) {
      TokenSource source(path, 1000);
      std::vector<int32_t> tokens(static_cast<size_t>(source.size()));
      source.read(0, tokens);
      for (int32_t token : tokens)
        ASSERT_LT(static_cast<uint32_t>(token), 1000u);
    });
    EXPECT_GT(taken + refused, 0);
  }
}

/// Damages one file of a tokenizer's folder at a time. A tokenizer that can be read must encode and decode a text.
void readMutantsOfTokenizer(const std::string &kind, const std::vector<std::string> &files) {
  const std::string text = "In the beginning\n  GOD's 123 <|endoftext|> e\xcc\x81 \xff";
  for (const std::string &damaged : files) {
    TemporaryFolder folder(memoryFolder());
    const std::string samples = "tests/models/tokenizer_samples/" + kind + "/";
    for (const std::string &name : files)
      folder.write(name, readAll(samples + name));
    EXPECT_EQ(errorOf([&] { Tokenizer(folder.path("")); }), "");
    auto [taken, refused] = readMutants(readAll(samples + damaged), [&](const std::string &path) {
      folder.write(damaged, readAll(path));
      const Tokenizer tokenizer(folder.path(""));
      for (int32_t id : tokenizer.encode(text))
        ASSERT_LT(id, tokenizer.vocabulary());
      tokenizer.decode(tokenizer.encode(text));
    });
    EXPECT_GT(refused, taken / 10) << damaged;
  }
}

TEST(MutatedFiles, TokenizerJson) {
  readMutantsOfTokenizer("llama3", {"tokenizer.json"});
}

TEST(MutatedFiles, VocabularyAndMerges) {
  readMutantsOfTokenizer("gpt2", {"vocab.json", "merges.txt"});
}

TEST(MutatedFiles, Adapter) {
  const ModelConfig model = Gpt2Config{.layers = 1, .heads = 2, .width = 4, .sequence = 3, .vocab = 5};
  const AdapterConfig adapter{.rank = 2, .layers = {"h.0.mlp.c_fc"}};
  const std::vector<float> values(32, 0.5f);
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec &parameter : adapterParameters(model, adapter))
    tensors.push_back(
        {parameter.name, parameter.shape, std::span(values).first(static_cast<size_t>(parameter.elements()))});
  for (const char *name : {"adapter_config.json", "adapter_model.safetensors"}) {
    TemporaryFolder folder(memoryFolder());
    writeAdapterFolder(folder.path("a"), model, adapter, tensors, "base");
    auto [taken, refused] = readMutants(readAll(folder.path("a/") + name), [&](const std::string &path) {
      folder.write(std::string("a/") + name, readAll(path));
      const AdapterFolder read(folder.path("a"), model);
      for (const ParameterSpec &parameter : adapterParameters(model, read.config())) {
        std::vector<float> out(static_cast<size_t>(parameter.elements()));
        read.read(parameter, out);
      }
      writeAdapterFolder(folder.path("again"), model, adapter, tensors, "base", read.configText());
    });
    EXPECT_GT(refused, taken / 10) << name;
  }
}

TEST(MutatedFiles, ManifestOfACheckpoint) {
  TemporaryFolder folder(memoryFolder());
  CheckpointStore store(folder.path("runs"), 2);
  store.write(7, [](const std::string &entry) { std::ofstream(entry + "/weights") << "weights of step 7"; });
  const std::string path = store.path(7) + "/manifest.json", original = readAll(path);
  const auto damageOf = [&](const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
    return checkpointDamage(store.path(7), 7);
  };
  std::mt19937 random(5);
  for (int round = test::mutationRounds(2000); round > 0; --round) {
    const std::string text = test::mutated(original, random);
    EXPECT_EQ(damageOf(text).empty(), text == original) << text;
  }
  const std::string tower = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_NE(damageOf(R"({"files": [{"name": "weights", "bytes": )" + tower + "}]}"), "");
  EXPECT_EQ(damageOf(original), "");
}

TEST(MutatedFiles, LogOfARun) {
  TemporaryFolder folder(memoryFolder());
  const std::string original =
      R"({"step":0,"loss":5.5,"norm":7.25,"tokens":2048,"parameters":{"wte.weight":"5e1f"}}
{"step":1,"loss":5.25,"norm":7.125,"tokens":4096,"parameters":{"wte.weight":"77aa"}}
{"step":2,"loss":5,"norm":7,"tokens":6144,"val_loss":5.5}
)";
  const std::string whole = folder.write("whole.jsonl", original);
  const auto [taken, refused] = readMutants(original, [&](const std::string &path) {
    EXPECT_LE(plotPointsOfLog(path).training.size(), 100u);
    compareRuns(path, whole);
    compareRuns(whole, path);
  });
  EXPECT_GT(taken, refused); // most damage leaves another step to compare
  const std::string tower = std::string(200000, '[') + std::string(200000, ']');
  const std::string deep =
      folder.write("deep.jsonl", R"({"step": 2, "loss": )" + tower + ", \"tokens\": " + tower + "}\n" + original);
  EXPECT_EQ(plotPointsOfLog(deep).training.size(), 3u);
  EXPECT_FALSE(compareRuns(deep, whole).differ) << "a line that is no step of a run is passed over";
}

} // namespace
