#include "models/checkpoint.h"
#include "test_files.h"

#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

constexpr Gpt2Config small{.layers = 1, .heads = 2, .width = 4, .sequence = 3, .vocab = 5};

/// The small model's parameters with recognisable values; `rename` and `reshape` make deviations.
struct Weights {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;

  explicit Weights(const std::string &prefix = "") {
    for (const Gpt2Parameter &parameter : gpt2Parameters(small)) {
      std::vector<float> &own = values.emplace_back(size_t(parameter.elements()));
      fillInitial(parameter, 3, own);
      tensors.push_back({prefix + parameter.name, parameter.shape, own});
    }
  }
  NamedTensor &named(const std::string &name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor &t) { return t.name == name; });
  }
  void add(const std::string &name, const std::vector<int64_t> &shape) {
    size_t count = 1;
    for (int64_t dim : shape)
      count *= size_t(dim);
    tensors.push_back({name, shape, values.emplace_back(count, 9.f)});
  }
};

std::string openError(const Weights &weights) {
  TemporaryFolder folder;
  writeGpt2Folder(folder.path("m"), small, weights.tensors);
  return errorOf([&] { Gpt2Folder read(folder.path("m")); });
}

TEST(Checkpoint, roundTripWithEitherPrefix) {
  for (const char *prefix : {"", "transformer."}) {
    TemporaryFolder folder;
    Weights weights(prefix);
    writeGpt2Folder(folder.path("new/m"), small, weights.tensors);
    Gpt2Folder read(folder.path("new/m"));
    EXPECT_EQ(read.config(), small);
    EXPECT_TRUE(read.notes().empty());
    size_t index = 0;
    for (const Gpt2Parameter &parameter : gpt2Parameters(small)) {
      std::vector<float> values(size_t(parameter.elements()));
      read.read(parameter, values);
      EXPECT_EQ(values, weights.values[index++]) << parameter.name;
    }
  }
}

TEST(Checkpoint, passesOverMasksAndTheTiedHead) {
  Weights weights;
  weights.add("h.0.attn.bias", {1, 1, 3, 3});
  weights.add("lm_head.weight", {5, 4});
  weights.add("score.weight", {2});
  TemporaryFolder folder;
  writeGpt2Folder(folder.path("m"), small, weights.tensors);
  Gpt2Folder read(folder.path("m"));
  ASSERT_EQ(read.notes().size(), 1u);
  expectContains(read.notes()[0], "tensor `score.weight` is not of this GPT-2");
}

TEST(Checkpoint, dropsPaddingRows) {
  Weights weights;
  std::vector<float> padded = weights.values[0];
  padded.resize(8 * 4, 77);
  weights.named("wte.weight") = {"wte.weight", {8, 4}, padded};
  TemporaryFolder folder;
  writeGpt2Folder(folder.path("m"), small, weights.tensors);
  Gpt2Folder read(folder.path("m"));
  std::vector<float> values(5 * 4);
  read.read(gpt2Parameters(small)[0], values);
  EXPECT_EQ(values, weights.values[0]);
  ASSERT_EQ(read.notes().size(), 1u);
  expectContains(read.notes()[0], "3 padding rows of `wte.weight` are dropped");
}

TEST(Checkpoint, refusesMissingAndMisshapenTensors) {
  Weights missing;
  missing.named("ln_f.bias").name = "ln_f.bios";
  expectContains(openError(missing), "tensor `ln_f.bias` is missing, config.json asks for 1 layers");
  Weights transposed;
  transposed.named("h.0.attn.c_attn.weight").shape = {12, 4};
  expectContains(openError(transposed),
                 "tensor `h.0.attn.c_attn.weight` has shape [12, 4], but config.json makes it [4, 12]");
  Weights flat;
  flat.named("wte.weight").shape = {20};
  expectContains(openError(flat), "`wte.weight` has shape [20]");
}

TEST(Checkpoint, refusesIncompleteFolders) {
  TemporaryFolder folder;
  auto error = [&] { return errorOf([&] { Gpt2Folder read(folder.path("")); }); };
  expectContains(errorOf([&] { Gpt2Folder read(folder.path("none")); }), "none/config.json: cannot open");
  writeConfig(folder.path("config.json"), small);
  expectContains(error(), "model.safetensors: cannot open");
  folder.write("pytorch_model.bin", "x");
  expectContains(error(), "holds pytorch_model.bin, but the weights are read from one model.safetensors");
  TensorToWrite integers{"wte.weight", TensorDtype::U8, {5, 4}, {}};
  std::vector<std::byte> bytes(20);
  integers.bytes = bytes;
  writeSafetensors(folder.path("model.safetensors"), {&integers, 1});
  expectContains(error(), "tensor `wte.weight` is U8, only F32, F16 and BF16");
  expectContains(errorOf([&] { writeGpt2Folder(folder.path("config.json/x"), small, {}); }), "cannot make the folder");
}

} // namespace
} // namespace tcc::models
