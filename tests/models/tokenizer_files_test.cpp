// Tokenizers that travel with weights: files as they were, made where they are missing, and ids that exist.
#include "models/checkpoint.h"
#include "test_files.h"

#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

using Json = nlohmann::json;

const std::string sampleFolder = "tests/models/tokenizer_samples/";

std::string contentOfFile(const TokenizerFiles &tokenizer, const std::string &name) {
  for (const TokenizerFiles::File &file : tokenizer.files)
    if (file.name == name)
      return file.content;
  return "";
}

TEST(TokenizerFiles, aVocabularyBecomesATokenizerJson) {
  const TokenizerFiles made = tokenizerFilesOf(sampleFolder + "gpt2", 64);
  const TemporaryFolder folder;
  writeTokenizerFiles(folder.path(""), made);
  const Tokenizer first(sampleFolder + "gpt2"), second(folder.path(""));
  ASSERT_TRUE(std::filesystem::exists(folder.path("tokenizer.json")));
  EXPECT_EQ(readAll(folder.path("vocab.json")), readAll(sampleFolder + "gpt2/vocab.json"));
  EXPECT_EQ(second.vocabulary(), first.vocabulary());
  const Json cases = Json::parse(readAll(sampleFolder + "expected.json"));
  for (const Json &sample : cases[0]["samples"]) {
    std::string bytes;
    for (const Json &byte : sample["bytes"])
      bytes += char(byte.get<int>());
    EXPECT_EQ(second.encode(bytes), sample["ids"].get<std::vector<int32_t>>()) << inQuotes(bytes);
  }
  const Json config = Json::parse(readAll(folder.path("tokenizer_config.json")));
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["model_max_length"], 64);
  EXPECT_EQ(config["bos_token"], "<|endoftext|>");
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_EQ(made.ends.begin, first.addedId("<|endoftext|>"));
  EXPECT_EQ(made.ends.end, made.ends.begin);
}

TEST(TokenizerFiles, whatAFolderHasStaysAsItIs) {
  const TemporaryFolder folder;
  std::filesystem::copy(sampleFolder + "llama3", folder.path("from"));
  const std::string config = R"({"eos_token": {"content": "th"}, "chat_template": "x"})";
  folder.write("from/tokenizer_config.json", config);
  folder.write("from/chat_template.jinja", "{{ x }}");
  const TokenizerFiles made = tokenizerFilesOf(folder.path("from"), 64);
  EXPECT_EQ(contentOfFile(made, "tokenizer.json"), readAll(sampleFolder + "llama3/tokenizer.json"));
  EXPECT_EQ(contentOfFile(made, "tokenizer_config.json"), config);
  EXPECT_EQ(contentOfFile(made, "chat_template.jinja"), "{{ x }}");
  const int32_t th = Json::parse(readAll(sampleFolder + "llama3/tokenizer.json"))["model"]["vocab"]["th"];
  EXPECT_EQ(made.ends.end, th);
  EXPECT_EQ(made.ends.begin, std::nullopt) << "the folder names none";

  // What another tokenizer left there goes; without a tokenizer nothing is touched.
  std::filesystem::create_directory(folder.path("to"));
  for (const char *name : {"vocab.json", "merges.txt", "special_tokens_map.json", "other.json"})
    folder.write("to/" + std::string(name), "old");
  writeTokenizerFiles(folder.path("to"), {});
  EXPECT_EQ(readAll(folder.path("to/vocab.json")), "old");
  writeTokenizerFiles(folder.path("to"), made);
  for (const char *name : {"vocab.json", "merges.txt", "special_tokens_map.json"})
    EXPECT_FALSE(std::filesystem::exists(folder.path("to/" + std::string(name)))) << name;
  EXPECT_EQ(readAll(folder.path("to/other.json")), "old");

  // A kind that is not read here travels too.
  folder.write("from/tokenizer.json", R"({"model": {"type": "Unigram"}})");
  const TokenizerFiles unread = tokenizerFilesOf(folder.path("from"), 64);
  EXPECT_EQ(contentOfFile(unread, "tokenizer.json"), R"({"model": {"type": "Unigram"}})");
  EXPECT_EQ(unread.ends.end, std::nullopt);
  EXPECT_TRUE(tokenizerFilesOf(folder.path("none"), 64).files.empty());
}

TEST(TokenizerFiles, bytesAreATokenizerToo) {
  const TemporaryFolder folder;
  writeTokenizerFiles(folder.path(""), byteTokenizerFiles(64));
  const Tokenizer tokenizer(folder.path(""));
  EXPECT_TRUE(tokenizer.isOfBytes());
  EXPECT_EQ(tokenizer.encode("a \xc3\xa9\n"), (std::vector<int32_t>{'a', ' ', 0xc3, 0xa9, '\n'}));
  EXPECT_FALSE(folderTokenizer(folder.path(""))) << "bytes are tokens already";
  EXPECT_FALSE(Tokenizer(sampleFolder + "gpt2").isOfBytes());
  EXPECT_TRUE(folderTokenizer(sampleFolder + "gpt2"));
  const Json config = Json::parse(readAll(folder.path("tokenizer_config.json")));
  EXPECT_FALSE(config.contains("bos_token"));
}

TEST(TokenizerFiles, everyIdInAConfigurationExists) {
  const TemporaryFolder folder;
  const auto ends = [&](const ModelConfig &config, const std::string &original, const TokenizerFiles &tokenizer) {
    writeConfig(folder.path("config.json"), config, original, tokenizer);
    const Json json = Json::parse(readAll(folder.path("config.json")));
    return Json{json.at("bos_token_id"), json.at("eos_token_id")}.dump();
  };
  const Gpt2Config small{.layers = 1, .heads = 1, .width = 8, .sequence = 8, .vocab = 300}, large{.vocab = 50257};
  TokenizerFiles own = tokenizerFilesOf(sampleFolder + "gpt2", 64), other = own;
  own.ends.begin = 3, own.ends.end = 400;
  other.replaces = true;
  other.ends.begin = other.ends.end = 7;
  EXPECT_EQ(ends(small, "", {}), "[null,null]") << "50256, transformers' default, does not exist";
  EXPECT_EQ(ends(large, "", {}), "[50256,50256]");
  EXPECT_EQ(ends(LlamaConfig{}, "", byteTokenizerFiles(8)), "[null,null]");
  EXPECT_EQ(ends(small, "", own), "[3,null]");
  EXPECT_EQ(ends(small, R"({"bos_token_id": 299, "eos_token_id": [1, 299]})", own), "[299,[1,299]]");
  EXPECT_EQ(ends(small, R"({"bos_token_id": 300, "eos_token_id": [1, 300]})", own), "[3,null]");
  EXPECT_EQ(ends(small, R"({"bos_token_id": -1, "eos_token_id": null})", own), "[3,null]");
  EXPECT_EQ(ends(small, R"({"bos_token_id": 299, "eos_token_id": 1})", other), "[7,7]");
}

} // namespace
} // namespace tcc::models
