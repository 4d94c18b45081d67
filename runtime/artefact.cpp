// Writes an artefact as bytes, and reads it from them.
#include "runtime/artefact.h"
#include "runtime/elf_section.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime {
namespace {

constexpr std::string_view magic = "tccart\r\n";
constexpr uint32_t formatVersion = 4;
constexpr size_t sectionAlignment = 64; // machine code and its constants may be used where they lie
constexpr size_t headerBytes = 8 + 4 + 4;
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

constexpr uint64_t padded(uint64_t bytes) {
  return (bytes + sectionAlignment - 1) / sectionAlignment * sectionAlignment;
}

std::string checksum(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char *>(canonical.digest), checksumBytes);
}

// The sections of an artefact that is being written; equal ones have one number.
class Sections {
public:
  size_t add(const std::string &section) {
    auto [known, inserted] = numbers.try_emplace(section, list.size() + 1);
    if (inserted)
      list.push_back(&known->first);
    return known->second;
  }
  const std::vector<const std::string *> &all() const { return list; } // without section 0

private:
  std::map<std::string, size_t> numbers;
  std::vector<const std::string *> list;
};

// Section 0, read: metadata, and for each target its names and section numbers.
struct Contents {
  struct Entry {
    std::string target, needs;
    size_t plan = 0;
    std::vector<size_t> code;
  };
  std::vector<Entry> targets;
  std::map<std::string, std::string> metadata;
};

Expected<Contents> parseContents(std::string_view text, int64_t sections) {
  auto json = parseJson(text, maxPlanTextBytes, "artefact contents");
  if (!json)
    return json.error();
  JsonReader reader("artefact contents");
  Contents contents;
  const Json &metadata = reader.member(*json, "metadata");
  if (!reader.error() && !metadata.is_object())
    reader.fail("`metadata` is not an object");
  if (metadata.is_object())
    for (const auto &[key, value] : metadata.items())
      contents.metadata[key] = reader.asString(value);
  for (const Json &entry : reader.list(*json, "targets", maxArtefactTargets)) {
    reader.enter("targets", contents.targets.size());
    Contents::Entry target{reader.string(entry, "target"),
                           reader.string(entry, "needs"),
                           static_cast<size_t>(reader.integer(entry, "plan", 1, sections - 1)),
                           {}};
    for (const Json &number : reader.list(entry, "code", maxArtefactSections))
      target.code.push_back(static_cast<size_t>(reader.asInteger(number, 1, sections - 1)));
    contents.targets.push_back(std::move(target));
  }
  if (Error error = reader.error())
    return error;
  return contents;
}

// Header and checksum: the sections of a byte string that is whole.
Expected<std::vector<std::string_view>> splitSections(std::string_view bytes) {
  if (bytes.size() < headerBytes + checksumBytes || bytes.substr(0, magic.size()) != magic)
    return Error("not an artefact: it does not start with a whole artefact header");
  const uint32_t version = readLittle<uint32_t>(bytes, 8);
  if (version != formatVersion)
    return Error("artefact has format version " + std::to_string(version) + "; this runtime reads version " +
                 std::to_string(formatVersion) + (version < formatVersion ? ": compile it again" : ""));
  const uint32_t count = readLittle<uint32_t>(bytes, 12);
  if (count < 1 || count > maxArtefactSections || bytes.size() < headerBytes + 8 * count + checksumBytes)
    return Error("artefact is damaged: its header lists " + std::to_string(count) + " sections");
  uint64_t total = padded(headerBytes + 8 * count) + checksumBytes;
  std::vector<uint64_t> lengths;
  for (uint32_t i = 0; i < count; ++i) {
    lengths.push_back(readLittle<uint64_t>(bytes, headerBytes + 8 * i));
    if (lengths.back() > maxSectionBytes)
      return Error("artefact is damaged: a section claims " + std::to_string(lengths.back()) + " bytes; 2^32 at most");
    total += padded(lengths.back());
  }
  if (total != bytes.size())
    return Error("artefact is damaged: it has " + std::to_string(bytes.size()) + " bytes, its header says " +
                 std::to_string(total));
  if (checksum(bytes.substr(0, bytes.size() - checksumBytes)) != bytes.substr(bytes.size() - checksumBytes))
    return Error("artefact is damaged: its checksum does not match its content");
  std::vector<std::string_view> sections;
  size_t offset = padded(headerBytes + 8 * count);
  for (uint64_t length : lengths) {
    sections.push_back(bytes.substr(offset, length));
    offset += padded(length);
  }
  return sections;
}

/// The sections of an artefact's bytes, and what the first of them says of the others.
struct OpenedBytes {
  std::vector<std::string_view> sections;
  Contents contents;
};

Expected<OpenedBytes> openBytes(std::string_view bytes) {
  auto sections = splitSections(bytes);
  if (!sections)
    return sections.error();
  auto contents = parseContents((*sections)[0], static_cast<int64_t>(sections->size()));
  if (!contents)
    return contents.error();
  return OpenedBytes{std::move(*sections), std::move(*contents)};
}

} // namespace

Artefact cpuArtefact(Plan plan, std::string code, std::map<std::string, std::string> metadata) {
  TargetCode target{"cpu", {}, std::move(plan), {}, {}};
  if (!code.empty() || !target.plan.kernels.empty())
    target.code.push_back(std::move(code));
  return {{std::move(target)}, std::move(metadata)};
}

Error validateArtefact(const Artefact &artefact) {
  if (artefact.targets.empty() || artefact.targets.size() > static_cast<size_t>(maxArtefactTargets))
    return Error("artefact has code for " + std::to_string(artefact.targets.size()) + " targets; 1 to " +
                 std::to_string(maxArtefactTargets) + " are possible");
  for (const TargetCode &target : artefact.targets) {
    if (target.target.empty() || target.target.front() == ':')
      return Error("artefact has a target called `" + target.target + "`; names start with a kind of device");
    if (Error error = validatePlan(target.plan))
      return error;
    for (const KernelCode &kernel : target.plan.kernels)
      if (kernel.module >= target.code.size())
        return Error("kernel `" + kernel.symbol + "` for " + target.target + " is in code object " +
                     std::to_string(kernel.module) + "; there are " + std::to_string(target.code.size()));
  }
  return Error::success();
}

Expected<std::string> serializeArtefact(const Artefact &artefact) {
  if (Error error = validateArtefact(artefact))
    return error;
  Sections sections;
  Json contents = {{"metadata", Json::object_t(artefact.metadata.begin(), artefact.metadata.end())},
                   {"targets", Json::array()}};
  for (const TargetCode &target : artefact.targets) {
    if (const std::string op = unsavableCall(target.plan); !op.empty())
      return Error("custom op `" + op +
                   "` is a function of this process, which an artefact cannot hold; give it a shared object");
    Json entry = {{"target", target.target},
                  {"needs", target.needs},
                  {"plan", sections.add(planToJson(target.plan))},
                  {"code", Json::array()}};
    for (const std::string &object : target.code)
      entry["code"].push_back(sections.add(object));
    contents["targets"].push_back(std::move(entry));
  }
  if (sections.all().size() >= static_cast<size_t>(maxArtefactSections))
    return Error("artefact has " + std::to_string(sections.all().size()) + " different plans and code objects; " +
                 std::to_string(maxArtefactSections - 1) + " at most");
  const std::string first = writeJson(contents);
  std::string bytes(magic);
  appendLittle(bytes, formatVersion);
  appendLittle(bytes, static_cast<uint32_t>(sections.all().size() + 1));
  appendLittle(bytes, static_cast<uint64_t>(first.size()));
  for (const std::string *section : sections.all())
    appendLittle(bytes, static_cast<uint64_t>(section->size()));
  const auto append = [&bytes](std::string_view section) {
    bytes.resize(padded(bytes.size()));
    bytes += section;
  };
  append(first);
  for (const std::string *section : sections.all())
    append(*section);
  bytes.resize(padded(bytes.size()));
  return bytes + checksum(bytes);
}

Expected<std::vector<std::vector<size_t>>> codeOffsets(std::string_view bytes) {
  auto opened = openBytes(bytes);
  if (!opened)
    return opened.error();
  std::vector<std::vector<size_t>> offsets;
  for (const Contents::Entry &entry : opened->contents.targets) {
    offsets.emplace_back();
    for (size_t number : entry.code)
      offsets.back().push_back(static_cast<size_t>(opened->sections[number].data() - bytes.data()));
  }
  return offsets;
}

Expected<Artefact> parseArtefact(std::string_view bytes) {
  auto opened = openBytes(bytes);
  if (!opened)
    return opened.error();
  Artefact artefact;
  artefact.metadata = std::move(opened->contents.metadata);
  std::map<size_t, Plan> plans;
  uint64_t codeBytes = 0;
  for (Contents::Entry &entry : opened->contents.targets) {
    if (!plans.contains(entry.plan)) {
      auto plan = planFromJson(opened->sections[entry.plan]);
      if (!plan)
        return plan.error();
      plans.emplace(entry.plan, std::move(*plan));
    }
    TargetCode target{std::move(entry.target), std::move(entry.needs), plans.at(entry.plan), {}, {}};
    for (size_t number : entry.code) {
      codeBytes += opened->sections[number].size();
      if (codeBytes > maxArtefactTargets * bytes.size())
        return Error("artefact is damaged: its targets name more code than it can have");
      target.code.emplace_back(opened->sections[number]);
    }
    artefact.targets.push_back(std::move(target));
  }
  if (Error error = validateArtefact(artefact))
    return error;
  return artefact;
}

Error writeArtefact(const Artefact &artefact, const std::string &path) {
  auto bytes = serializeArtefact(artefact);
  if (!bytes)
    return bytes.error();
  return writeFileAtomically(path, *bytes);
}

Expected<std::string> readArtefactBytes(const std::string &path) {
  auto bytes = readFile(path);
  if (bytes && isArchive(*bytes))
    return Error("`" + path + "` is an archive, which is for linkers; a .so, .o or .tcc file is expected");
  if (!bytes || !isElf(*bytes))
    return bytes;
  auto section = artefactOfElf(*bytes);
  if (!section)
    return Error("`" + path + "`: " + section.error().message());
  return std::string(*section);
}

Expected<Artefact> readArtefact(const std::string &path) {
  auto bytes = readArtefactBytes(path);
  if (!bytes)
    return bytes.error();
  auto artefact = parseArtefact(*bytes);
  if (!artefact)
    return Error("`" + path + "`: " + artefact.error().message());
  return artefact;
}

} // namespace tcc::runtime
