#include "models/data.h"
#include "frontend/quotes.h"
#include "models/checksum.h"
#include "models/example_tokens.h"
#include "models/token_header.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace tcc::models {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace {

/// A shard's first three int32 are magic number, version and token count.
constexpr int64_t headerBytes = TokenHeader::size;

struct ShardKind {
  int32_t magic, version;
  TokenFormat format;
};
constexpr ShardKind shardKinds[] = {{20240520, 1, TokenFormat::ShardUint16}, {20240801, 7, TokenFormat::ShardUint32}};

/// Files up to this size are checked token by token when they are opened.
constexpr int64_t checkedBytes = int64_t(512) << 20;

int64_t bytesPerToken(TokenFormat format) {
  switch (format) {
  case TokenFormat::Text:
    return 1;
  case TokenFormat::RawUint16:
  case TokenFormat::ShardUint16:
    return 2;
  case TokenFormat::ShardUint32:
  case TokenFormat::Examples:
    return 4;
  }
  return 1;
}

/// Calls visit(index, token) for `count` values of type T at `bytes` (unaligned).
template <typename T, typename Visit>
void forEachToken(const std::byte *bytes, int64_t count, Visit visit) {
  for (int64_t i = 0; i < count; ++i) {
    T token;
    std::memcpy(&token, bytes + i * int64_t(sizeof(T)), sizeof(T));
    visit(i, token);
  }
}

template <typename Visit>
void forEachToken(TokenFormat format, const std::byte *bytes, int64_t count, Visit visit) {
  switch (bytesPerToken(format)) {
  case 1:
    return forEachToken<uint8_t>(bytes, count, visit);
  case 2:
    return forEachToken<uint16_t>(bytes, count, visit);
  default:
    return forEachToken<uint32_t>(bytes, count, visit);
  }
}

} // namespace

std::string_view describe(TokenFormat format) {
  switch (format) {
  case TokenFormat::Text:
    return "text, one token a byte";
  case TokenFormat::RawUint16:
    return "raw uint16 tokens";
  case TokenFormat::ShardUint16:
    return "llm.c shard, uint16 tokens";
  case TokenFormat::ShardUint32:
    return "llm.c shard, uint32 tokens";
  case TokenFormat::Examples:
    return "examples";
  }
  return "";
}

TokenFile::TokenFile(const std::string &path, int64_t vocabulary, const std::string &source)
    : file(path), source(source), vocabularySize(vocabulary) {
  if (file.size() == 0)
    throw Error(fmt::format("{}: the file is empty, at least one batch of tokens is needed", path));
  readHeader();
  if (file.size() <= checkedBytes)
    checkAll();
}

void TokenFile::readHeader() {
  int32_t magic = 0;
  if (file.size() >= 4)
    std::memcpy(&magic, file.data(), 4);
  if (magic == example_file::magic)
    return readExamplesHeader();
  const ShardKind *kind =
      std::find_if(std::begin(shardKinds), std::end(shardKinds), [&](const ShardKind &k) { return k.magic == magic; });
  if (kind == std::end(shardKinds)) {
    tokenFormat = path().ends_with(".bin") ? TokenFormat::RawUint16 : TokenFormat::Text;
    int64_t width = bytesPerToken(tokenFormat);
    if (file.size() % width != 0)
      throw Error(fmt::format("{}: {} bytes, but a .bin file of uint16 tokens has an even number of bytes", path(),
                              file.size()));
    tokenCount = file.size() / width;
    return;
  }
  if (file.size() < headerBytes)
    throw Error(fmt::format("{}: {} bytes, but the header of a token shard (magic {}) has {} bytes", path(),
                            file.size(), magic, headerBytes));
  int32_t version, count;
  std::memcpy(&version, file.data() + 4, 4);
  std::memcpy(&count, file.data() + 8, 4);
  if (version != kind->version)
    throw Error(fmt::format("{}: byte 4: shard version {}, but magic {} goes with version {}", path(), version, magic,
                            kind->version));
  tokenFormat = kind->format;
  int64_t expected = headerBytes + int64_t(count) * bytesPerToken(tokenFormat);
  if (count <= 0 || file.size() != expected)
    throw Error(fmt::format("{}: byte 8: the header counts {} tokens, but {} bytes after the header hold {}", path(),
                            count, file.size() - headerBytes,
                            double(file.size() - headerBytes) / double(bytesPerToken(tokenFormat))));
  tokenCount = count;
  headerEnd = firstByte = headerBytes;
}

void TokenFile::readExamplesHeader() {
  int32_t version = 0;
  int64_t counts[2] = {};
  if (file.size() >= headerBytes) {
    std::memcpy(&version, file.data() + 4, sizeof version);
    std::memcpy(counts, file.data() + 8, sizeof counts);
  }
  const int64_t rest = file.size() - headerBytes;
  if (version != example_file::version || counts[0] < 1 || counts[0] > rest / 8 ||
      (rest - 8 * counts[0]) / 4 != counts[1] || (rest - 8 * counts[0]) % 4 != 0)
    throw Error(fmt::format("{}: not a whole file of examples of version {}", path(), example_file::version));
  tokenFormat = TokenFormat::Examples;
  exampleCount = counts[0];
  tokenCount = counts[1];
  headerEnd = headerBytes;
  firstByte = headerBytes + 8 * exampleCount;
  int64_t begin = 0;
  for (const int64_t end : exampleEnds())
    if (std::exchange(begin, end) >= end || end > tokenCount)
      throw Error(fmt::format("{}: the ends of the examples are not in order", path()));
  if (begin != tokenCount)
    throw Error(fmt::format("{}: the examples end at token {} of {}", path(), begin, tokenCount));
}

std::vector<int64_t> TokenFile::exampleEnds() const {
  std::vector<int64_t> ends(size_t(exampleCount), 0);
  std::memcpy(ends.data(), file.data() + headerEnd, ends.size() * sizeof(int64_t));
  return ends;
}

/// The token of a value in the file.
uint32_t TokenFile::tokenOf(uint32_t value) const {
  return tokenFormat == TokenFormat::Examples ? value & ~example_file::notLearned : value;
}

template <typename Visit>
void TokenFile::forEachValue(int64_t first, int64_t count, Visit visit) const {
  const std::byte *bytes = file.data() + firstByte + first * bytesPerToken(tokenFormat);
  forEachToken(tokenFormat, bytes, count, visit);
}

void TokenFile::checkAll() const {
  int64_t width = bytesPerToken(tokenFormat);
  if (width < 4 && vocabularySize >= int64_t(1) << (8 * width))
    return; // no value of this width is outside
  // The maximum of a block is found without branches; the position only where a block has an error.
  constexpr int64_t block = 1 << 16;
  for (int64_t first = 0; first < tokenCount; first += block) {
    int64_t count = std::min(block, tokenCount - first);
    uint32_t largest = 0;
    forEachValue(first, count, [&](int64_t, uint32_t value) { largest = std::max(largest, tokenOf(value)); });
    if (int64_t(largest) >= vocabularySize)
      forEachValue(first, count, [&](int64_t i, uint32_t value) {
        if (int64_t(tokenOf(value)) >= vocabularySize)
          failOutside(first + i, tokenOf(value));
      });
  }
}

void TokenFile::failOutside(int64_t position, uint32_t token) const {
  const std::string byte = // of the file itself
      source.empty() ? fmt::format("byte {}: ", firstByte + position * bytesPerToken(tokenFormat)) : "";
  throw Error(fmt::format("{}: {}token {} at position {} is outside the vocabulary of {}", name(), byte, token,
                          position, vocabularySize));
}

void TokenFile::read(int64_t first, std::span<int32_t> out) const {
  assert(first >= 0 && int64_t(out.size()) <= tokenCount - first);
  forEachValue(first, int64_t(out.size()), [&](int64_t i, uint32_t value) {
    const uint32_t token = tokenOf(value);
    if (int64_t(token) >= vocabularySize)
      failOutside(first + i, token);
    out[size_t(i)] = int32_t(token);
  });
}

void TokenFile::readTargets(int64_t first, std::span<int32_t> out) const {
  read(first, out);
  if (tokenFormat == TokenFormat::Examples)
    forEachValue(first, int64_t(out.size()), [&](int64_t i, uint32_t value) {
      if (value & example_file::notLearned)
        out[size_t(i)] = -1;
    });
}

std::string TokenFile::fingerprint() const {
  Checksum checksum;
  const int64_t about[] = {bytesPerToken(tokenFormat), tokenCount};
  checksum.add(std::as_bytes(std::span(about)));
  const std::span<const std::byte> tokens = file.bytes().subspan(size_t(headerEnd));
  if (int64_t(tokens.size()) <= checkedBytes) {
    checksum.add(tokens);
    return checksum.text();
  }
  constexpr size_t parts = 512, partBytes = size_t(1) << 20;
  for (size_t part = 0; part < parts; ++part)
    checksum.add(tokens.subspan((tokens.size() - partBytes) / (parts - 1) * part, partBytes));
  return checksum.text();
}

TokenSource::TokenSource(const std::vector<std::string> &paths, int64_t vocabulary,
                         const std::vector<std::string> &texts)
    : starts{0} {
  for (size_t i = 0; i < paths.size(); ++i) {
    files.emplace_back(paths[i], vocabulary, i < texts.size() ? texts[i] : "");
    starts.push_back(starts.back() + files.back().size());
    if (files.back().format() != files.front().format())
      throw Error(fmt::format("{} is {}, {} is {}: files of one kind are expected", files.front().name(),
                              describe(files.front().format()), files.back().name(), describe(files.back().format())));
  }
}

std::string TokenSource::name() const {
  const std::string &first = files.front().name();
  return files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
}

template <typename Read>
void TokenSource::readAcross(int64_t first, std::span<int32_t> out, Read read) const {
  size_t file = size_t(std::upper_bound(starts.begin(), starts.end(), first) - starts.begin()) - 1;
  while (!out.empty()) {
    const auto count = size_t(std::min<int64_t>(int64_t(out.size()), starts[file + 1] - first));
    read(files[file], first - starts[file], out.first(count));
    out = out.subspan(count);
    first = starts[++file];
  }
}

void TokenSource::read(int64_t first, std::span<int32_t> out) const {
  readAcross(first, out, [](const TokenFile &file, int64_t at, std::span<int32_t> part) { file.read(at, part); });
}

void TokenSource::readTargets(int64_t first, std::span<int32_t> out) const {
  readAcross(first, out,
             [](const TokenFile &file, int64_t at, std::span<int32_t> part) { file.readTargets(at, part); });
}

std::vector<int64_t> TokenSource::exampleEnds() const {
  std::vector<int64_t> ends;
  for (size_t i = 0; i < files.size(); ++i)
    for (const int64_t end : files[i].exampleEnds())
      ends.push_back(starts[i] + end);
  return ends;
}

std::string TokenSource::fingerprint() const {
  if (files.size() == 1)
    return files.front().fingerprint();
  Checksum checksum;
  for (const TokenFile &file : files) {
    const std::string sum = file.fingerprint();
    checksum.add(std::as_bytes(std::span(sum)));
  }
  return checksum.text();
}

} // namespace tcc::models
