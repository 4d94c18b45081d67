// Tokenizers against the `tokenizers` package (tokenizer_samples, written by tokenizers_parity.py): letters of many
// scripts, joiners, decomposed accents, special tokens, invalid bytes; and files that are damaged.
#include "models/data.h"
#include "models/tokenized_text.h"
#include "models/tokenizer_training.h"
#include "models/unicode.h"
#include "test_files.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace tcc::models {
namespace {

using Json = nlohmann::json;

const std::string samples = "tests/models/tokenizer_samples/";

TEST(Tokenizer, tokensAreThoseOfTheTokenizersPackage) {
  const Json cases = Json::parse(readAll(samples + "expected.json"));
  ASSERT_EQ(cases.size(), 2u);
  for (const Json &entry : cases) {
    const Tokenizer tokenizer(samples + entry["name"].get<std::string>());
    EXPECT_EQ(tokenizer.vocabulary(), 340);
    ASSERT_GT(entry["samples"].size(), 30u);
    for (const Json &sample : entry["samples"]) {
      std::string bytes;
      for (const Json &byte : sample["bytes"])
        bytes += char(byte.get<int>());
      const std::vector<int32_t> ids = tokenizer.encode(bytes);
      EXPECT_EQ(ids, sample["ids"].get<std::vector<int32_t>>()) << entry["name"] << ": " << inQuotes(bytes);
      const std::string text = validUtf8(bytes);
      if (entry["name"] == "gpt2") {
        EXPECT_EQ(tokenizer.decode(ids), text) << inQuotes(bytes);
      }
    }
  }
}

TEST(Tokenizer, textsAreSplitByThePackagesUnicode) {
  const Json cases = Json::parse(readAll(samples + "pieces.json"));
  ASSERT_GT(cases.size(), 30u);
  for (const Json &entry : cases) {
    const std::string text = entry["text"], pattern = entry["pattern"];
    std::vector<size_t> lengths;
    std::string whole;
    for (const std::string_view piece : TextPattern(pattern, "the sample").pieces(text)) {
      lengths.push_back(piece.size());
      whole += piece;
    }
    EXPECT_EQ(lengths, entry["lengths"].get<std::vector<size_t>>()) << pattern << " on " << text;
    EXPECT_EQ(whole, text) << "stand-ins are not seen";
  }
}

TEST(Tokenizer, eachMaximalInvalidPartIsOneReplacement) {
  const std::string mark = "\xef\xbf\xbd";
  const std::pair<std::string, std::string> cases[] = {{"plain é € 😀", "plain é € 😀"},
                                                       {"\xff\xfe", mark + mark},
                                                       {"\xe2\x82", mark}, // a beginning
                                                       {"\xe2\x82"
                                                        "a",
                                                        mark + "a"},
                                                       {"\xf0\x9f\x98\xf0\x9f\x98\x80", mark + "😀"},
                                                       {"\xc0\xaf", mark + mark},            // overlong
                                                       {"\xed\xa0\x80", mark + mark + mark}, // a surrogate
                                                       {"\xf4\x90\x80\x80", mark + mark + mark + mark},
                                                       {"\xf0\x80\x80", mark + mark + mark}};
  for (const auto &[bytes, text] : cases)
    EXPECT_EQ(validUtf8(bytes), text) << inQuotes(bytes);
}

TEST(Tokenizer, normalFormsAreUnicodes) {
  EXPECT_EQ(normalizedUtf8("e\xcc\x81", "NFC"), "é");
  EXPECT_EQ(normalizedUtf8("é", "NFD"), "e\xcc\x81");
  EXPECT_EQ(normalizedUtf8("ﬁ", "NFKC"), "fi");
  EXPECT_EQ(normalizedUtf8("ﬁ", "NFC"), "ﬁ");
  EXPECT_EQ(normalizedUtf8(std::string("a\0b", 3), "NFC"), std::string("a\0b", 3));
}

TEST(Tokenizer, aPathologicalPatternEnds) {
  const TextPattern pattern("(a+)+$", "tokenizer.json");
  const std::string text = std::string(40, 'a') + "b";
  const auto start = std::chrono::steady_clock::now();
  expectContains(errorOf([&] { pattern.pieces(text); }), "tokenizer.json: splitting a text at byte 0: retry-limit");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << "2 s on a machine of its own";
  expectContains(errorOf([] { TextPattern bad("(", "tokenizer.json"); }), "tokenizer.json: pattern `(`: ");
}

TEST(Tokenizer, longPiecesTakeNoSquareOfTheirLength) {
  const Tokenizer tokenizer(samples + "gpt2");
  const std::string text(1 << 20, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

/// The error of a tokenizer.json of llama3's kind after `change`.
template <typename Change>
std::string errorAfter(Change change) {
  const TemporaryFolder folder;
  Json json = Json::parse(readAll(samples + "llama3/tokenizer.json"));
  change(json);
  folder.write("tokenizer.json", json.dump());
  return errorOf([&] { Tokenizer tokenizer(folder.path("")); });
}

TEST(Tokenizer, refusesWhatIsNotHereByItsName) {
  EXPECT_EQ(errorAfter([](Json &) {}), "");
  expectContains(errorAfter([](Json &json) { json["model"]["byte_fallback"] = true; }),
                 "a tokenizer with byte fallback (as Llama 2's): only byte-level ones are supported");
  expectContains(errorAfter([](Json &json) { json["model"]["type"] = "Unigram"; }), "kind `Unigram`: only BPE");
  expectContains(errorAfter([](Json &json) { json["normalizer"] = {{"type", "Lowercase"}}; }),
                 "normalizer `Lowercase`");
  expectContains(errorAfter([](Json &json) { json["pre_tokenizer"] = {{"type", "Metaspace"}}; }),
                 "splitter `Metaspace`");
  expectContains(errorAfter([](Json &json) { json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }),
                 "Split with behavior `Removed`");
  expectContains(errorAfter([](Json &json) { json["added_tokens"][0]["lstrip"] = true; }), "`lstrip` is not supported");
  expectContains(errorAfter([](Json &json) { json["model"]["unk_token"] = "x"; }), "`unk_token` is");
  expectContains(errorAfter([](Json &json) { json["model"]["byte_fallback"] = "yes"; }), "of another kind");
}

TEST(Tokenizer, refusesDamagedFiles) {
  const auto vocabulary = [](auto change) { return errorAfter([&](Json &json) { change(json["model"]["vocab"]); }); };
  expectContains(vocabulary([](Json &vocab) { vocab.erase("th"); }), "the vocabulary has no token of id ");
  expectContains(vocabulary([](Json &vocab) {
                   const Json id = vocab["th"];
                   vocab.erase("th");
                   vocab["zzzz"] = id;
                 }),
                 "needs the token `th`, which is not");
  expectContains(vocabulary([](Json &vocab) { vocab["th"] = 9999; }), "the vocabulary has no token of id ");
  expectContains(vocabulary([](Json &vocab) { vocab["th"] = vocab["A"]; }), "is that of `");
  expectContains(vocabulary([](Json &vocab) { vocab["th"] = -1; }), "a whole number up to");
  expectContains(vocabulary([](Json &vocab) {
                   const Json id = vocab["A"];
                   vocab.erase("A");
                   vocab["AAAA"] = id;
                 }),
                 "byte 65 has no token");
  expectContains(errorAfter([](Json &json) { json["model"]["merges"][0] = "alone"; }), "merge 1: two tokens");
  expectContains(errorAfter([](Json &json) { json["model"]["merges"] = 3; }), "`merges`: a list is expected");

  const TemporaryFolder folder;
  const std::string whole = readAll(samples + "llama3/tokenizer.json");
  for (size_t i = 0; i < 40; ++i) {
    folder.write("tokenizer.json", whole.substr(0, whole.size() * i / 40));
    expectContains(errorOf([&] { Tokenizer tokenizer(folder.path("")); }), "tokenizer.json: ");
  }
  std::filesystem::remove(folder.path("tokenizer.json"));
  expectContains(errorOf([&] { Tokenizer tokenizer(folder.path("")); }), "vocab.json: cannot open");
  folder.write("vocab.json", readAll(samples + "gpt2/vocab.json"));
  folder.write("merges.txt", "#version: 0.2\nĠ t\nalone\n");
  expectContains(errorOf([&] { Tokenizer tokenizer(folder.path("")); }), "merges.txt: line 3: `alone`, two tokens");
}

TEST(Tokenizer, isLearnedFromAText) {
  TemporaryFolder folder;
  // In "aab aab aac" and "aab": a a 4 times, then aa b 3 times with its space twice, ...
  EXPECT_EQ(trainTokenizer(folder.path("t"), "aab aab aac<|endoftext|>aab", 260), 260);
  const auto model = nlohmann::json::parse(readAll(folder.path("t/tokenizer.json")))["model"];
  EXPECT_EQ(model["merges"].dump(), R"([["a","a"],["aa","b"],["Ġ","aa"]])");
  EXPECT_EQ(model["vocab"]["<|endoftext|>"], 0);
  const Tokenizer tokenizer(folder.path("t"));
  EXPECT_EQ(tokenizer.vocabulary(), 260);
  EXPECT_EQ(tokenizer.startOfText(), 0);
  const std::string text = "aab<|endoftext|> aab\xff";
  EXPECT_EQ(tokenizer.encode("aab<|endoftext|>").size(), 2u);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), "aab<|endoftext|> aab\xef\xbf\xbd");
  // No more than the text has; never over a tokenizer that is there.
  EXPECT_EQ(trainTokenizer(folder.path("few"), "ab ab", 5000), 259);
  EXPECT_NE(errorOf([&] { trainTokenizer(folder.path("t"), "ab", 300); }).find("there is a tokenizer already"),
            std::string::npos);
}

TEST(Tokenizer, learnsTheSameFromATextInPortions) {
  // Every kind of white space around lines' ends; where a text is repeated, all counts grow alike.
  const std::string unit = "one\ntwo \nthree\n\n  four\t\n don't 12\r\ncaf\xc3\xa9\n\xe2\x80\x83\n x\n";
  std::string longText;
  while (longText.size() < (size_t(5) << 20)) // more than is split at once
    longText += unit;
  TemporaryFolder folder;
  trainTokenizer(folder.path("unit"), unit, 290);
  trainTokenizer(folder.path("long"), longText, 290);
  EXPECT_EQ(readAll(folder.path("long/tokenizer.json")), readAll(folder.path("unit/tokenizer.json")));
}

TEST(Tokenizer, aTextIsTokenisedOnceAndRemembered) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer(samples + "gpt2"), other(samples + "llama3");
  const std::string text = folder.write("text.txt", "In the beginning God created the heaven and the earth.");
  std::vector<std::string> said;
  const auto file = [&](const Tokenizer &by) {
    said.clear();
    return tokenizedFile(text, by, [&](std::string_view line) { said.emplace_back(line); }, folder.path("cache"));
  };
  const std::string first = file(tokenizer);
  EXPECT_EQ(said.size(), 2u);
  const TokenSource source(first, tokenizer.vocabulary());
  std::vector<int32_t> ids(size_t(source.size()));
  source.read(0, ids);
  EXPECT_EQ(ids, tokenizer.encode(readAll(text)));
  EXPECT_EQ(file(tokenizer), first);
  expectContains(said.at(0), "are those of an earlier run");
  EXPECT_NE(file(other), first);
  const std::string whole = readAll(first);
  for (size_t at : {size_t(4), size_t(1000), size_t(1024), whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(first, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(file(tokenizer), first);
    expectContains(said.at(0), "damaged, or of another version of tcc; it is made anew");
    EXPECT_EQ(readAll(first), whole) << "byte " << at;
  }
  std::ofstream(text, std::ios::app) << "!";
  EXPECT_NE(file(tokenizer), first) << "another text";
  EXPECT_TRUE(isTokenFile(first));
  EXPECT_FALSE(isTokenFile(text));
}

} // namespace
} // namespace tcc::models
