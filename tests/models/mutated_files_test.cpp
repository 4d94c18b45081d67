// Every reader of models/ on damaged files: an InputError or a value, never a crash, a hang or memory that no file
// backs.
#include "models/data.h"
#include "models/model_config.h"
#include "models/run_state.h"
#include "models/safetensors.h"
#include "models/weight_files.h"
#include "test_files.h"
#include "tests/mutate.h"
#include <functional>

using namespace tcc;
using namespace tcc::models;

namespace {

/// How many damaged copies of `original` the reader took, and how many it refused with an InputError.
std::pair<int, int> readMutants(const std::string &original, const std::function<void(const std::string &path)> &read) {
  MemoryFile file;
  std::mt19937 random(static_cast<uint32_t>(original.size()));
  int taken = 0, refused = 0;
  for (int round = test::mutationRounds(2000); round > 0; --round) {
    std::string path = file.write(test::mutated(original, random));
    try {
      read(path);
      ++taken;
    } catch (const InputError &) {
      ++refused;
    }
  }
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
  EXPECT_GT(taken, 0); // a changed value is a value
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
  for (const char *preset : {"baby", "llama-baby"}) {
    writeConfig(folder.path("config.json"), *modelPreset(preset));
    auto [taken, refused] = readMutants(readAll(folder.path("config.json")), [](const std::string &path) {
      std::vector<std::string> notes;
      checkConfig(readConfig(path, &notes)); // what was read is a model
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

} // namespace
