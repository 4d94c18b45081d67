// Bytes of an artefact.
#include "runtime/artefact.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime {
namespace {

constexpr std::string_view magic = "tccart\r\n";
constexpr uint32_t formatVersion = 1;
constexpr uint32_t sectionCount = 3;
constexpr size_t headerBytes = 8 + 4 + 4 + 8 * sectionCount;
constexpr size_t checksumBytes = 16;
constexpr uint64_t maxSectionBytes = uint64_t{1} << 32;

template <typename T>
void appendLittle(std::string &bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes += static_cast<char>(value >> (8 * i));
}

template <typename T>
T readLittle(std::string_view bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  return value;
}

std::string checksum(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char *>(canonical.digest), checksumBytes);
}

Expected<std::map<std::string, std::string>> parseMetadata(std::string_view text) {
  auto json = parseJson(text, maxPlanTextBytes, "artefact metadata");
  if (!json)
    return json.error();
  if (!json->is_object())
    return Error("artefact metadata: an object was expected");
  JsonReader reader("artefact metadata");
  std::map<std::string, std::string> metadata;
  for (const auto &[key, value] : json->items())
    metadata[key] = reader.asString(value);
  if (Error error = reader.error())
    return error;
  return metadata;
}

} // namespace

Expected<std::string> serializeArtefact(const Artefact &artefact) {
  if (Error error = validatePlan(artefact.plan))
    return error;
  Json metadata = Json::object();
  for (const auto &[key, value] : artefact.metadata)
    metadata[key] = value;
  const std::string sections[sectionCount] = {planToJson(artefact.plan), artefact.code, writeJson(metadata)};
  std::string bytes(magic);
  appendLittle(bytes, formatVersion);
  appendLittle(bytes, sectionCount);
  for (const std::string &section : sections)
    appendLittle(bytes, static_cast<uint64_t>(section.size()));
  for (const std::string &section : sections)
    bytes += section;
  return bytes + checksum(bytes);
}

Expected<Artefact> parseArtefact(std::string_view bytes) {
  if (bytes.size() < headerBytes + checksumBytes || bytes.substr(0, magic.size()) != magic)
    return Error("not an artefact: it does not start with a whole artefact header");
  const uint32_t version = readLittle<uint32_t>(bytes, 8);
  if (version != formatVersion)
    return Error("artefact has format version " + std::to_string(version) + "; this runtime reads version " +
                 std::to_string(formatVersion));
  if (readLittle<uint32_t>(bytes, 12) != sectionCount)
    return Error("artefact is damaged: its header does not list three sections");
  uint64_t lengths[sectionCount], total = headerBytes + checksumBytes;
  for (uint32_t i = 0; i < sectionCount; ++i) {
    lengths[i] = readLittle<uint64_t>(bytes, 16 + 8 * i);
    if (lengths[i] > maxSectionBytes)
      return Error("artefact is damaged: a section claims " + std::to_string(lengths[i]) + " bytes; 2^32 at most");
    total += lengths[i];
  }
  if (total != bytes.size())
    return Error("artefact is damaged: it has " + std::to_string(bytes.size()) + " bytes, its header says " +
                 std::to_string(total));
  if (checksum(bytes.substr(0, bytes.size() - checksumBytes)) != bytes.substr(bytes.size() - checksumBytes))
    return Error("artefact is damaged: its checksum does not match its content");
  size_t offset = headerBytes;
  auto section = [&](uint32_t i) {
    offset += lengths[i];
    return bytes.substr(offset - lengths[i], lengths[i]);
  };
  auto plan = planFromJson(section(0));
  if (!plan)
    return plan.error();
  Artefact artefact{std::move(*plan), std::string(section(1)), {}};
  auto metadata = parseMetadata(section(2));
  if (!metadata)
    return metadata.error();
  artefact.metadata = std::move(*metadata);
  return artefact;
}

Error writeArtefact(const Artefact &artefact, const std::string &path) {
  auto bytes = serializeArtefact(artefact);
  if (!bytes)
    return bytes.error();
  return writeFileAtomically(path, *bytes);
}

Expected<Artefact> readArtefact(const std::string &path) {
  auto bytes = readFile(path);
  if (!bytes)
    return bytes.error();
  auto artefact = parseArtefact(*bytes);
  if (!artefact)
    return Error("`" + path + "`: " + artefact.error().message());
  return artefact;
}

} // namespace tcc::runtime
