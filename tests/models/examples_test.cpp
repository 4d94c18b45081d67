#include "models/batches.h"
#include "models/chat_template.h"
#include "models/example_tokens.h"
#include "models/examples.h"
#include "test_files.h"

#include <map>
#include <numeric>

namespace tcc::models {
namespace {

constexpr const char *marked = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}"
                               "{% if add_generation_prompt %}<assistant>{% endif %}";

std::string exampleError(const std::string &lines) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", lines);
  std::string text = errorOf([&] { exampleFile(path, {}, [](std::string_view) {}, folder.path("cache")); });
  return text.starts_with(path) ? text.substr(path.size()) : text;
}

TEST(Examples, linesAreTokensAndMarks) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"ab\"}\n\n{\"prompt\": \"x\", \"completion\": \"yz\"}");
  std::vector<std::string> said;
  const auto report = [&](std::string_view text) { said.emplace_back(text); };
  const std::string kept = exampleFile(path, {}, report, folder.path("cache"));
  EXPECT_NE(said.back().find("2 examples are 5 tokens, 4 of them learned"), std::string::npos) << said.back();
  const TokenSource source(kept, 256);
  EXPECT_EQ(source.format(), TokenFormat::Examples);
  EXPECT_EQ(source.exampleEnds(), (std::vector<int64_t>{2, 5}));
  std::vector<int32_t> tokens(5), targets(5);
  source.read(0, tokens);
  source.readTargets(0, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{'a', 'b', 'x', 'y', 'z'}));
  EXPECT_EQ(targets, (std::vector<int32_t>{'a', 'b', -1, 'y', 'z'}));
  EXPECT_EQ(exampleFile(path, {}, report, folder.path("cache")), kept);
  EXPECT_TRUE(said.back().ends_with("those of an earlier run: " + kept)) << said.back();
  const std::string whole = readAll(kept);
  std::string damaged = whole;
  damaged.back() ^= 1;
  std::ofstream(kept, std::ios::binary | std::ios::trunc) << damaged;
  EXPECT_EQ(exampleFile(path, {}, report, folder.path("cache")), kept);
  EXPECT_EQ(readAll(kept), whole) << "damaged ones are made anew";
}

TEST(Examples, namesTheBadLine) {
  EXPECT_EQ(exampleError("{\"text\": \"a\"}\n{\"txt\": 1}\n"),
            ":2: neither \"text\", nor \"prompt\" and \"completion\", nor \"messages\"");
  EXPECT_EQ(exampleError("\n[1]"), ":2: no JSON object; each line is one");
  EXPECT_EQ(exampleError("{\"text\": 1}"), ":1: \"text\" is no text");
  EXPECT_EQ(exampleError("{\"prompt\": \"a\"}"), ":1: \"completion\" is missing");
  EXPECT_NE(exampleError("{\"messages\": []}").find("need a chat template"), std::string::npos);
  EXPECT_NE(exampleError("{\"text\": \"a").find(":1"), std::string::npos);
  EXPECT_EQ(exampleError("\n \n"), ": the file has no examples");
}

TEST(Examples, damagedFilesAreRefused) {
  TemporaryFolder folder;
  ExampleTokens tokens;
  for (int32_t i = 0; i < 3; ++i) {
    tokens.add(std::vector<int32_t>{i, i + 1, i + 2}, i != 1);
    tokens.endExample();
  }
  tokens.write(folder.path("a"));
  const std::string whole = readAll(folder.path("a"));
  const MemoryFile file;
  EXPECT_EQ(TokenSource(file.write(whole), 256).exampleEnds().size(), 3u);
  for (size_t size = 4; size < whole.size(); ++size)
    EXPECT_NE(errorOf([&] { TokenSource source(file.write(whole.substr(0, size)), 256); }), "") << size;
  for (size_t byte = 4; byte < 24; ++byte) // version and counts
    for (const char bits : {char(1), char(0x80)}) {
      std::string other = whole;
      other[byte] = char(other[byte] ^ bits);
      EXPECT_NE(errorOf([&] { TokenSource source(file.write(other), 256); }), "") << byte;
    }
  for (size_t byte = 1024; byte < 1024 + 3 * 8; ++byte) { // the ends
    std::string other = whole;
    other[byte] = char(other[byte] ^ 0x40);
    EXPECT_NE(errorOf([&] { TokenSource source(file.write(other), 256); }), "") << byte;
  }
}

/// Examples of drawn lengths; token number i of the file is i, so that places can be told.
TokenSource numbered(TemporaryFolder &folder, const std::vector<int64_t> &lengths) {
  ExampleTokens tokens;
  int32_t next = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    std::iota(ids.begin(), ids.end(), next);
    next += int32_t(length);
    const size_t prompt = ids.size() / 3;
    tokens.add(std::span(ids).first(prompt), false);
    tokens.add(std::span(ids).subspan(prompt), true);
    tokens.endExample();
  }
  tokens.write(folder.path("numbered"));
  return {folder.path("numbered"), 1 << 20};
}

TEST(ExampleRows, aPassHasEachLearnedTokenOnce) {
  for (const bool packs : {true, false})
    for (const Order order : {Order::Random, Order::Sequential}) {
      TemporaryFolder folder;
      std::vector<int64_t> lengths;
      for (int64_t i = 0; i < 97; ++i)
        lengths.push_back(1 + (i * i * 7919 + i) % 45);
      const TokenSource source = numbered(folder, lengths);
      const Batches batches(source, {0, source.size()}, 5, 16, order, 3, packs);
      std::map<int32_t, int> wanted, seen;
      std::vector<int32_t> targets(static_cast<size_t>(source.size()));
      source.readTargets(0, targets);
      int64_t first = 0;
      for (const int64_t end : source.exampleEnds()) {
        for (int64_t i = first + 1; i < end; ++i) // an example's first token is never a target
          if (targets[size_t(i)] >= 0)
            wanted[targets[size_t(i)]] = 1;
        first = end;
      }
      const int64_t rows = batches.examples()->size();
      std::vector<int32_t> inputs(80), read(80);
      for (int64_t step = 0; step * 5 < rows; ++step) {
        batches.read(step, inputs, read);
        for (int64_t row = 0; row < 5 && step * 5 + row < rows; ++row)
          for (int64_t t = 0; t < 16; ++t)
            if (const size_t at = size_t(row * 16 + t); read[at] >= 0) {
              ++seen[read[at]];
              EXPECT_EQ(inputs[at], read[at] - 1);
            }
      }
      EXPECT_EQ(seen, wanted);
      if (packs) {
        EXPECT_LT(rows, 97 + 97);
      }
      for (int64_t row = 0; row < rows; ++row) {
        int64_t positions = 0;
        for (const ExamplePiece &piece : batches.examples()->row(row))
          positions += piece.count;
        EXPECT_LE(positions, 16);
        EXPECT_EQ(packs || batches.examples()->row(row).size() == 1, true);
      }
    }
}

TEST(ExampleRows, heldOutExamplesAreNotTrainedOn) {
  TemporaryFolder folder;
  const TokenSource source = numbered(folder, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  const HeldOutSplit split = splitHeldOut(source, 0.2, 4, 16);
  EXPECT_EQ(split.training.count, 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12);
  EXPECT_EQ(split.heldOut.first, split.training.count);
  const Batches held(source, split.heldOut, 4, 16, Order::Sequential, 0);
  EXPECT_EQ(held.batchesPerPass(), 1);
  EXPECT_EQ(held.examples()->examples(), 2);
  TemporaryFolder other;
  EXPECT_NE(errorOf([&] { splitHeldOut(numbered(other, {5}), 0.2, 4, 16); }), "");
}

TEST(ChatTemplate, learnsTheAnswersAlone) {
  const ChatTemplate chat(marked, "here", "<s>", "</s>");
  const auto messages =
      runtime::Json::parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                                 {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])");
  bool onlyLast = true;
  const std::vector<ChatPart> wanted = {{"<s><user>a<end>\n<assistant>", false},
                                        {"b<end>", true},
                                        {"\n<user>c<end>\n<assistant>", false},
                                        {"d<end>", true},
                                        {"\n", false}};
  EXPECT_EQ(chat.parts(messages, onlyLast), wanted);
  EXPECT_FALSE(onlyLast);
  EXPECT_NE(errorOf([&] { chat.parts(runtime::Json::parse(R"([{"role": "user", "content": "a"}])"), onlyLast); }), "");
}

TEST(ChatTemplate, aTemplateThatRewritesEarlierAnswersTeachesTheLast) {
  const ChatTemplate chat(
      "{% for m in messages %}<{{ m.role }}>{{ '?' if m.role == 'assistant' and loop.last }}{{ m.content "
      "}}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      "here", "", "");
  const auto messages =
      runtime::Json::parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                                 {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])");
  bool onlyLast = false;
  const std::vector<ChatPart> wanted = {{"<user>a<assistant>b<user>c<assistant>", false}, {"?d", true}};
  EXPECT_EQ(chat.parts(messages, onlyLast), wanted);
  EXPECT_TRUE(onlyLast);
}

TEST(ChatTemplate, isFoundInAFolder) {
  TemporaryFolder folder;
  EXPECT_FALSE(ChatTemplate::in(folder.path("")).has_value());
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<b>"}, "chat_template": [{"name": "tool", "template": "x"},
                   {"name": "default", "template": "{{ bos_token }}!"}]})");
  EXPECT_EQ(ChatTemplate::in(folder.path(""))->render(runtime::Json::array(), false), "<b>!");
  folder.write("chat_template.jinja", "own");
  EXPECT_EQ(ChatTemplate::in(folder.path(""))->render(runtime::Json::array(), false), "own");
  folder.write("chat_template.jinja", "{% if %}");
  EXPECT_NE(errorOf([&] { ChatTemplate::in(folder.path("")); }).find("chat_template.jinja: line 1: "),
            std::string::npos);
}

} // namespace
} // namespace tcc::models
