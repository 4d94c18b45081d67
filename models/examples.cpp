#include "models/examples.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/chat_template.h"
#include "models/checksum.h"
#include "models/example_tokens.h"
#include "models/json_file.h"
#include "models/tokenized_text.h"
#include "models/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace tcc::models {

namespace {

constexpr int64_t lineLimit = int64_t(64) << 20;

/// Turns lines into tokens.
class LineReader {
public:
  LineReader(const std::string &path, const ExampleReader &reader)
      : path(path), tokenizer(reader.tokenizer), folder(reader.folder) {
    if (!tokenizer)
      return;
    const TextEnds ends = textEnds(*tokenizer, folder);
    end = ends.end;
    begin = ends.begin == ends.end ? std::nullopt : ends.begin;
    chat = ChatTemplate::in(folder);
  }

  /// Tells ways of reading apart.
  std::string fingerprint() const {
    return (tokenizer ? tokenizer->fingerprint() : "bytes") + (chat ? chat->fingerprint() : "") +
           fmt::format(" {} {}", begin.value_or(-1), end.value_or(-1));
  }

  void read(std::string_view line, int64_t number) {
    this->number = number;
    auto json = runtime::parseJson(line, lineLimit, fmt::format("{}:{}", path, number));
    if (!json)
      throw Error(json.error().message());
    if (!json->is_object())
      fail("no JSON object; each line is one");
    try {
      if (json->contains("messages"))
        addConversation((*json)["messages"]);
      else if (json->contains("prompt") || json->contains("completion"))
        addCompletion(textOf(*json, "prompt"), textOf(*json, "completion"));
      else if (json->contains("text"))
        addText(textOf(*json, "text"));
      else
        fail("neither \"text\", nor \"prompt\" and \"completion\", nor \"messages\"");
    } catch (const LineError &) {
      throw;
    } catch (const Error &error) {
      fail(error.what());
    }
    tokens.endExample();
  }

  ExampleTokens tokens;
  int64_t onlyLast = 0; // conversations of which the last answer alone is learned

private:
  /// An error that names its line already.
  struct LineError : Error {
    using Error::Error;
  };

  [[noreturn]] void fail(const std::string &why) const { throw LineError(fmt::format("{}:{}: {}", path, number, why)); }

  std::string textOf(const runtime::Json &line, const char *key) const {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_string())
      fail(fmt::format("\"{}\" is {}", key, found == line.end() ? "missing" : "no text"));
    return *found;
  }

  void add(std::string_view text, bool learned) {
    if (tokenizer)
      return tokens.add(tokenizer->encode(text), learned);
    std::vector<int32_t> bytes(text.size());
    std::ranges::transform(text, bytes.begin(), [](char c) { return int32_t(uint8_t(c)); });
    tokens.add(bytes, learned);
  }

  void addToken(std::optional<int32_t> token, bool learned) {
    if (token)
      tokens.add(std::span(&*token, 1), learned);
  }

  void addText(const std::string &text) {
    addToken(begin, false);
    add(text, true);
    addToken(end, true);
  }

  void addCompletion(const std::string &prompt, const std::string &completion) {
    addToken(begin, false);
    add(prompt, false);
    add(completion, true);
    addToken(end, true);
  }

  void addConversation(const runtime::Json &messages) {
    if (!chat)
      fail(tokenizer ? fmt::format("conversations need a chat template; {} has none (chat_template.jinja, or "
                                   "chat_template in tokenizer_config.json)",
                                   folder)
                     : "conversations need a chat template; --tokenizer FOLDER or --init FOLDER names one");
    if (!messages.is_array() || messages.empty())
      fail("\"messages\" is no list of messages");
    for (size_t i = 0; i < messages.size(); ++i)
      if (!messages[i].is_object() || !messages[i].value("role", runtime::Json()).is_string() ||
          !messages[i].contains("content"))
        fail(fmt::format("message {} has no role and content", i + 1));
    bool last = false;
    for (const ChatPart &part : chat->parts(messages, last))
      add(part.text, part.learned);
    onlyLast += last;
  }

  const std::string &path;
  int64_t number = 0;
  const Tokenizer *tokenizer;
  std::string folder;
  std::optional<int32_t> begin, end;
  std::optional<ChatTemplate> chat;
};

} // namespace

bool isExampleFile(std::string_view path) {
  return path.ends_with(".jsonl");
}

std::string exampleFile(const std::string &path, const ExampleReader &reader,
                        const std::function<void(std::string_view)> &report, std::string cache) {
  const MappedFile file(path);
  LineReader lines(path, reader);
  Checksum sum;
  sum.add(file.bytes());
  const std::string way = lines.fingerprint();
  sum.add(std::as_bytes(std::span(way)));
  const std::string kept = keptTokensPath(sum.text(), ".examples", std::move(cache));
  if (areKept(kept, path, report))
    return kept;
  int64_t number = 0;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      lines.read(line, number);
  }
  if (lines.tokens.examples() == 0)
    throw Error(fmt::format("{}: the file has no examples", path));
  lines.tokens.write(kept);
  report(fmt::format("{} examples are {} tokens, {} of them learned: {}", lines.tokens.examples(), lines.tokens.size(),
                     lines.tokens.learned(), kept));
  if (lines.onlyLast)
    report(fmt::format("note: of {} conversations only the last answer is learned; the chat template writes earlier "
                       "ones in another way",
                       lines.onlyLast));
  return kept;
}

ExampleRows::ExampleRows(const TokenSource &source, TokenRange range, int64_t sequence, bool packs)
    : columns(sequence) {
  std::vector<ExamplePiece> found;
  std::vector<int32_t> targets(size_t(sequence), 0);
  int64_t begin = 0;
  for (const int64_t end : source.exampleEnds()) {
    const int64_t first = std::exchange(begin, end);
    if (first < range.first || end > range.first + range.count)
      continue;
    ++exampleCount;
    const int64_t positions = end - first - 1;
    longer += positions > columns;
    for (int64_t place = 0; place < positions; place += columns) {
      const ExamplePiece piece{first + place, std::min(columns, positions - place)};
      const std::span<int32_t> out(targets.data(), size_t(piece.count));
      source.readTargets(piece.first + 1, out);
      if (std::ranges::any_of(out, [](int32_t target) { return target >= 0; }))
        found.push_back(piece);
    }
  }
  if (found.empty())
    throw Error(fmt::format("{}: no example has a token to learn", source.name()));

  // Best fit: each piece goes into the fullest row that has room for it.
  std::vector<size_t> order(found.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return found[a].count > found[b].count; });
  std::vector<std::vector<size_t>> rows;
  std::set<std::pair<int64_t, int64_t>> room; // positions that are left, and the row
  for (const size_t i : order) {
    auto best = packs ? room.lower_bound({found[i].count, 0}) : room.end();
    int64_t left = columns, row = int64_t(rows.size());
    if (best != room.end()) {
      std::tie(left, row) = *best;
      room.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[size_t(row)].push_back(i);
    if (left > found[i].count)
      room.insert({left - found[i].count, row});
  }
  // Rows stand in the order of their first examples.
  for (std::vector<size_t> &row : rows)
    std::ranges::sort(row);
  std::ranges::sort(rows, {}, [](const std::vector<size_t> &row) { return row.front(); });
  starts.push_back(0);
  for (const std::vector<size_t> &row : rows) {
    for (const size_t i : row)
      pieces.push_back(found[i]);
    starts.push_back(int64_t(pieces.size()));
  }
}

std::span<const ExamplePiece> ExampleRows::row(int64_t i) const {
  const auto first = size_t(starts[size_t(i)]), last = size_t(starts[size_t(i) + 1]);
  return std::span(pieces).subspan(first, last - first);
}

std::string ExampleRows::describe() const {
  int64_t used = 0;
  for (const ExamplePiece &piece : pieces)
    used += piece.count;
  std::string text = fmt::format("{} examples in {} rows of {}", exampleCount, size(), columns);
  if (longer)
    text += fmt::format("; {} are longer and were cut", longer);
  return text +
         fmt::format("; {:.0f} % of the positions are empty", 100.0 - 100.0 * double(used) / double(size() * columns));
}

} // namespace tcc::models
