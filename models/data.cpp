#include "models/data.h"
#include "models/checksum.h"
#include "models/counter_random.h"
#include "models/input_error.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace tcc::models {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace {

/// llm.c's shard header: 256 int32 values, of which the first three are magic number, version and token count.
constexpr int64_t headerBytes = 256 * 4;

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
  }
  return "";
}

TokenSource::TokenSource(const std::string &path, int64_t vocabulary) : file(path), vocabularySize(vocabulary) {
  if (file.size() == 0)
    throw InputError(fmt::format("{}: the file is empty, at least one batch of tokens is needed", path));
  readHeader();
  if (file.size() <= checkedBytes)
    checkAll();
}

void TokenSource::readHeader() {
  int32_t magic = 0;
  if (file.size() >= 4)
    std::memcpy(&magic, file.data(), 4);
  const ShardKind *kind =
      std::find_if(std::begin(shardKinds), std::end(shardKinds), [&](const ShardKind &k) { return k.magic == magic; });
  if (kind == std::end(shardKinds)) {
    tokenFormat = path().ends_with(".bin") ? TokenFormat::RawUint16 : TokenFormat::Text;
    int64_t width = bytesPerToken(tokenFormat);
    if (file.size() % width != 0)
      throw InputError(fmt::format("{}: {} bytes, but a .bin file of uint16 tokens has an even number of bytes", path(),
                                   file.size()));
    tokenCount = file.size() / width;
    return;
  }
  if (file.size() < headerBytes)
    throw InputError(fmt::format("{}: {} bytes, but the header of a token shard (magic {}) has {} bytes", path(),
                                 file.size(), magic, headerBytes));
  int32_t version, count;
  std::memcpy(&version, file.data() + 4, 4);
  std::memcpy(&count, file.data() + 8, 4);
  if (version != kind->version)
    throw InputError(fmt::format("{}: byte 4: shard version {}, but magic {} goes with version {}", path(), version,
                                 magic, kind->version));
  tokenFormat = kind->format;
  int64_t expected = headerBytes + int64_t(count) * bytesPerToken(tokenFormat);
  if (count <= 0 || file.size() != expected)
    throw InputError(fmt::format("{}: byte 8: the header counts {} tokens, but {} bytes after the header hold {}",
                                 path(), count, file.size() - headerBytes,
                                 double(file.size() - headerBytes) / double(bytesPerToken(tokenFormat))));
  tokenCount = count;
  firstByte = headerBytes;
}

void TokenSource::checkAll() const {
  int64_t width = bytesPerToken(tokenFormat);
  if (width < 4 && vocabularySize >= int64_t(1) << (8 * width))
    return; // no value of this width is outside
  const std::byte *begin = file.data() + firstByte;
  // The maximum of a block is found without branches; the position only where a block has an error.
  constexpr int64_t block = 1 << 16;
  for (int64_t first = 0; first < tokenCount; first += block) {
    int64_t count = std::min(block, tokenCount - first);
    const std::byte *bytes = begin + first * width;
    uint32_t largest = 0;
    forEachToken(tokenFormat, bytes, count, [&](int64_t, uint32_t token) { largest = std::max(largest, token); });
    if (int64_t(largest) >= vocabularySize)
      forEachToken(tokenFormat, bytes, count, [&](int64_t i, uint32_t token) {
        if (int64_t(token) >= vocabularySize)
          failOutside(first + i, token);
      });
  }
}

void TokenSource::failOutside(int64_t position, uint32_t token) const {
  throw InputError(fmt::format("{}: byte {}: token {} at position {} is outside the vocabulary of {}", path(),
                               firstByte + position * bytesPerToken(tokenFormat), token, position, vocabularySize));
}

void TokenSource::read(int64_t first, std::span<int32_t> out) const {
  assert(first >= 0 && int64_t(out.size()) <= tokenCount - first);
  const std::byte *bytes = file.data() + firstByte + first * bytesPerToken(tokenFormat);
  forEachToken(tokenFormat, bytes, int64_t(out.size()), [&](int64_t i, uint32_t token) {
    if (int64_t(token) >= vocabularySize)
      failOutside(first + i, token);
    out[size_t(i)] = int32_t(token);
  });
}

std::string TokenSource::fingerprint() const {
  Checksum checksum;
  const int64_t about[] = {bytesPerToken(tokenFormat), tokenCount};
  checksum.add(std::as_bytes(std::span(about)));
  const std::span<const std::byte> tokens = file.bytes().subspan(size_t(firstByte));
  if (int64_t(tokens.size()) <= checkedBytes) {
    checksum.add(tokens);
    return checksum.text();
  }
  constexpr size_t parts = 512, partBytes = size_t(1) << 20;
  for (size_t part = 0; part < parts; ++part)
    checksum.add(tokens.subspan((tokens.size() - partBytes) / (parts - 1) * part, partBytes));
  return checksum.text();
}

HeldOutSplit splitHeldOut(const TokenSource &source, double share, int64_t batch, int64_t sequence) {
  const int64_t needed = batch * sequence + 1;
  const int64_t heldOut = std::max(int64_t(share * double(source.size())), needed);
  if (source.size() - heldOut < needed)
    throw InputError(fmt::format("{}: {} tokens, but a batch of {} x {} to train on and one to evaluate need {}",
                                 source.path(), source.size(), batch, sequence, 2 * needed));
  return {{0, source.size() - heldOut}, {source.size() - heldOut, heldOut}};
}

Batches::Batches(const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence, Order order,
                 uint64_t seed)
    : source(&source), range(range), rows(batch), columns(sequence), order(order), seed(seed) {
  if (batch < 1 || sequence < 1 || batch > std::numeric_limits<int32_t>::max() / sequence)
    throw InputError(fmt::format("a batch of {} x {} tokens: both must be at least 1 and their product below 2^31",
                                 batch, sequence));
  if (range.count < batch * sequence + 1)
    throw InputError(fmt::format("{}: {} tokens, but one batch of {} x {} needs {} (the last one is a target only)",
                                 source.path(), range.count, batch, sequence, batch * sequence + 1));
}

void Batches::read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  assert(int64_t(inputs.size()) == rows * columns && int64_t(targets.size()) == rows * columns && step >= 0);
  if (order == Order::Sequential) {
    int64_t first = range.first + (step % batchesPerPass()) * rows * columns;
    source->read(first, inputs);
    source->read(first + 1, targets);
    return;
  }
  constexpr uint64_t stream = streamOf("batches");
  uint64_t starts = uint64_t(range.count - columns); // a row needs T + 1 tokens
  for (int64_t row = 0; row < rows; ++row) {
    int64_t first = range.first + int64_t(boundedBits(randomBits(seed, stream, uint64_t(step * rows + row)), starts));
    source->read(first, inputs.subspan(size_t(row * columns), size_t(columns)));
    source->read(first + 1, targets.subspan(size_t(row * columns), size_t(columns)));
  }
}

} // namespace tcc::models
