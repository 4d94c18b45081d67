// Reads the file of --config by LLVM's YAML parser: 1. its bytes are text; 2. one document, a map; 3. each key once,
// with a text or a list of texts. What is no such value ends the reading before its inside is looked at, so that deep
// nesting costs nothing.
#include "models/options_file.h"
#include "frontend/files.h"
#include "frontend/quotes.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace tcc::models {

namespace {

namespace yaml = llvm::yaml;

constexpr int64_t byteLimit = 1 << 20;

/// JSON writes a character beyond 16 bits as two escapes, which the parser makes two halves of, three bytes each: these
/// become the four bytes of the one character. False where a half is alone.
bool joinHalves(std::string &text) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
  const auto isHalf = [&](size_t i, uint8_t kind) { return byte(i) == 0xED && (byte(i + 1) & 0xF0) == kind; };
  const auto low = [&](size_t i) { return uint32_t(byte(i + 1) & 0x0F) << 6 | uint32_t(byte(i + 2) & 0x3F); };
  std::string joined;
  for (size_t i = 0; i < text.size();) {
    if (isHalf(i, 0xB0) || (isHalf(i, 0xA0) && !isHalf(i + 3, 0xB0)))
      return false;
    if (!isHalf(i, 0xA0)) {
      joined += text[i++];
      continue;
    }
    const uint32_t code = 0x10000 + (low(i) << 10) + low(i + 3);
    for (const uint32_t part :
         {0xF0 | code >> 18, 0x80 | (code >> 12 & 0x3F), 0x80 | (code >> 6 & 0x3F), 0x80 | (code & 0x3F)})
      joined += char(part);
    i += 6;
  }
  text = joined;
  return true;
}

class Reader {
public:
  explicit Reader(const std::string &path) : path(path), bytes(bytesOf(path)), source(bytes) {
    for (size_t end = source.find('\n'); end != llvm::StringRef::npos; end = source.find('\n', end + 1))
      lines.push_back(end + 1);
    checkText();
    diagnostics.setDiagHandler(
        [](const llvm::SMDiagnostic &found, void *reader) { static_cast<Reader *>(reader)->keep(found); }, this);
  }

  std::vector<FileOption> read() {
    yaml::Stream stream(source, diagnostics, /*ShowColors=*/false);
    yaml::document_iterator document = stream.begin();
    yaml::Node *root = document->getRoot();
    check();
    if (llvm::isa_and_nonnull<yaml::NullNode>(root) || !root)
      throw usageError(fmt::format("{}: the file holds no options; lines such as `batch: 8` are expected", path));
    auto *map = llvm::dyn_cast<yaml::MappingNode>(root);
    if (!map)
      refuse(root, "a map of options is expected, lines such as `batch: 8` (a space follows the colon)");
    refuseMarks(*root, beginOf(*root));
    isFlow = source.substr(offsetOf(beginOf(*root))).starts_with("{");
    for (yaml::KeyValueNode &pair : *map) {
      add(pair);
      check();
    }
    check();
    ++document; // the first one and its nodes are gone
    check();
    if (document != stream.end()) {
      const yaml::Node *second = document->getRoot();
      check();
      refuse(second ? beginOf(*second) : source.end(),
             "a second document begins here, one map of options is expected (keys begin in the same column)");
    }
    return std::move(options);
  }

private:
  static std::string bytesOf(const std::string &path) {
    const MappedFile file(path);
    if (file.size() > byteLimit)
      throw usageError(fmt::format("{}: {} bytes, a file of options has at most {}", path, file.size(), byteLimit));
    return std::string(file.text());
  }

  /// Where `at` is in the file; its end for places outside, which the parser gives to nodes that it could not read.
  size_t offsetOf(const char *at) const {
    const bool isInside = !std::less<>()(at, source.begin()) && !std::less<>()(source.end(), at);
    return isInside ? size_t(at - source.begin()) : source.size();
  }
  /// Where the line of an offset begins, one of `lines`.
  std::vector<size_t>::const_iterator lineOf(size_t offset) const {
    return std::prev(std::ranges::upper_bound(lines, offset));
  }

  std::string place(const char *at) const {
    const size_t offset = offsetOf(at);
    const auto line = lineOf(offset);
    return fmt::format("{}:{}:{}", path, line - lines.begin() + 1, offset - *line + 1);
  }

  [[noreturn]] void refuse(const char *at, const std::string &what) const {
    throw usageError(fmt::format("{}: {}", place(at), what));
  }
  [[noreturn]] void refuse(const yaml::Node *node, const std::string &what) const { refuse(beginOf(*node), what); }

  /// Where a node begins. The parser lets a map or a list in brackets begin after the bracket.
  const char *beginOf(const yaml::Node &node) const {
    const char *begin = node.getSourceRange().Start.getPointer();
    if (!llvm::isa<yaml::MappingNode>(node) && !llvm::isa<yaml::SequenceNode>(node))
      return begin;
    const llvm::StringRef before = source.take_front(offsetOf(begin)).rtrim(" \t\r\n");
    return before.ends_with("{") || before.ends_with("[") ? before.end() - 1 : begin;
  }

  /// The parser's own words for these would be about tokens.
  void checkText() const {
    size_t bad = 0;
    if (!llvm::json::isUTF8(source, &bad))
      refuse(source.begin() + bad, "not UTF-8 text");
    bad =
        source.find_if([](unsigned char c) { return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F; });
    if (bad != llvm::StringRef::npos)
      refuse(source.begin() + bad, fmt::format("a control character, {}", inQuotes(source.substr(bad, 1).str())));
  }

  /// The first of the parser's errors. The usual mistakes are named in words of people who write options.
  void keep(const llvm::SMDiagnostic &found) {
    constexpr std::pair<const char *, const char *> mistakes[] = {
        {"tab character", tabText},
        {"Key or Block End", "`option: value` is expected here; a value with a colon and a space in it needs quotes"},
        {"quote at end of scalar", "a text in quotes does not end"},
        {"closing ]", "a list in brackets does not end"},
        {"Flow Entry", "a comma or a closing bracket is expected here"},
        {"Unrecognized character", "a text that begins with this character needs quotes"}};
    if (!problem.empty())
      return;
    const std::string said = found.getMessage().str();
    std::string what = "not valid YAML: " + said;
    for (const auto &[part, words] : mistakes)
      if (said.find(part) != std::string::npos)
        what = words;
    while (what.ends_with('.') || what.ends_with('!'))
      what.pop_back();
    problem = fmt::format("{}: {}", place(found.getLoc().getPointer()), what);
  }
  void check() const {
    if (!problem.empty())
      throw usageError(problem);
  }

  void refuseMarks(const yaml::Node &node, const char *at) const {
    if (llvm::isa<yaml::AliasNode>(node))
      refuse(at, "aliases (*NAME) are not read in a file of options (in quotes it is a text)");
    if (!node.getAnchor().empty())
      refuse(at, "anchors (&NAME) are not read in a file of options (in quotes it is a text)");
    if (!node.getRawTag().empty())
      refuse(at, fmt::format("tags such as {} are not read in a file of options (in quotes it is a text)",
                             inQuotes(node.getRawTag().str())));
  }

  /// A line that begins with a tab: the parser takes it for a space, other parsers refuse it.
  void refuseTab(const char *at) const {
    if (isFlow) // where it does not matter
      return;
    const llvm::StringRef indent =
        source.substr(*lineOf(offsetOf(at))).take_while([](char c) { return c == ' ' || c == '\t'; });
    if (const size_t tab = indent.find('\t'); tab != llvm::StringRef::npos)
      refuse(indent.begin() + tab, tabText);
  }

  /// The text of a key, a value or an item; `whose` is for a message, `at` its place or that of its key.
  FileValue text(yaml::Node *node, const std::string &whose, const char *at) const {
    check();
    if (!node || llvm::isa<yaml::NullNode>(node))
      refuse(at, fmt::format("{} has no value", whose));
    refuseMarks(*node, at);
    FileValue value{.text = {}, .isPlain = false, .place = place(at)};
    if (const auto *block = llvm::dyn_cast<yaml::BlockScalarNode>(node)) {
      value.text = block->getValue().str();
    } else if (const auto *scalar = llvm::dyn_cast<yaml::ScalarNode>(node)) {
      refuseTab(at);
      llvm::SmallString<64> storage;
      value.text = scalar->getValue(storage).str();
      value.isPlain = !scalar->getRawValue().starts_with("\"") && !scalar->getRawValue().starts_with("'");
    } else {
      refuse(at, fmt::format("{} is {}, a text or a number is expected", whose,
                             llvm::isa<yaml::MappingNode>(node) ? "a map" : "a list"));
    }
    check(); // escapes are read with the value
    if (value.isPlain && (value.text == "~" || value.text == "null" || value.text == "Null" || value.text == "NULL"))
      refuse(at, fmt::format("{} has no value", whose));
    if (value.text.find('\0') != std::string::npos)
      refuse(at, fmt::format("{} holds a NUL character", whose));
    if (!joinHalves(value.text))
      refuse(at, fmt::format("{} holds half of a surrogate pair", whose));
    return value;
  }

  void add(yaml::KeyValueNode &pair) {
    yaml::Node *keyNode = pair.getKey();
    check();
    const char *keyAt = keyNode ? keyNode->getSourceRange().Start.getPointer() : source.begin();
    FileOption option;
    option.key = text(keyNode, "a key", keyAt);
    const std::string whose = inQuotes(option.key.text);
    if (const auto [at, isNew] = places.try_emplace(option.key.text, option.key.place); !isNew)
      refuse(keyAt, fmt::format("{} is there twice, first at {}", whose, at->second));
    yaml::Node *valueNode = pair.getValue();
    check();
    // The parser does not say where aliases and texts of several lines begin.
    const auto placeOf = [&](yaml::Node *node) {
      const bool isKnown = llvm::isa_and_nonnull<yaml::ScalarNode, yaml::MappingNode, yaml::SequenceNode>(node);
      return isKnown ? beginOf(*node) : keyAt;
    };
    if (auto *list = llvm::dyn_cast_or_null<yaml::SequenceNode>(valueNode)) {
      refuseMarks(*list, keyAt);
      option.isList = true;
      for (yaml::Node &item : *list)
        option.values.push_back(text(&item, "an item of " + whose, placeOf(&item)));
    } else {
      option.values.push_back(text(valueNode, whose, placeOf(valueNode)));
    }
    options.push_back(std::move(option));
  }

  static constexpr const char *tabText = "a tab indents this line, YAML indents by spaces";
  const std::string path, bytes;
  const llvm::StringRef source;
  std::vector<size_t> lines = {0}; // where each begins
  llvm::SourceMgr diagnostics;
  std::string problem;
  bool isFlow = false; // the map is written in braces, as JSON's
  std::map<std::string, std::string> places;
  std::vector<FileOption> options;
};

} // namespace

std::vector<FileOption> readOptionsFile(const std::string &path) {
  return Reader(path).read();
}

} // namespace tcc::models
