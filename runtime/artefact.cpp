// Bytes of an artefact, and files that are never half written.
#include "runtime/artefact.h"
#include "runtime/json_reader.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
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

Error systemError(const std::string &what, const std::string &path) {
  return Error("cannot " + what + " `" + path + "`: " + std::strerror(errno));
}

// Closes on every way out.
struct File {
  int fd;
  ~File() {
    if (fd >= 0)
      ::close(fd);
  }
};

bool writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

Error writeAndSync(int descriptor, std::string_view bytes, const std::string &path) {
  File file{descriptor};
  if (!writeAll(file.fd, bytes))
    return systemError("write", path);
  if (::fsync(file.fd) != 0)
    return systemError("sync", path);
  return Error::success();
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

Error writeFileAtomically(const std::string &given, std::string_view bytes) {
  struct stat status;
  if (::stat(given.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    File file{::open(given.c_str(), O_WRONLY | O_CLOEXEC)};
    return file.fd >= 0 && writeAll(file.fd, bytes) ? Error::success() : systemError("write", given);
  }
  const std::unique_ptr<char, void (*)(void *)> target(::realpath(given.c_str(), nullptr), std::free);
  const std::string path = target ? target.get() : given; // behind links
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0)
    return systemError("create a file beside", path);
  if (Error error = writeAndSync(fd, bytes, temporary)) {
    ::unlink(temporary.c_str());
    return error;
  }
  if (::chmod(temporary.c_str(), 0644) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = systemError("replace", path);
    ::unlink(temporary.c_str());
    return error;
  }
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  File directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd < 0 || ::fsync(directory.fd) != 0)
    return systemError("sync folder", folder);
  return Error::success();
}

Expected<std::string> readFile(const std::string &path) {
  File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return systemError("open", path);
  struct stat status;
  if (::fstat(file.fd, &status) != 0)
    return systemError("read", path);
  if (!S_ISREG(status.st_mode))
    return Error("cannot read `" + path + "`: it is not a regular file");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.fd, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError("read", path);
    if (got == 0)
      break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
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
