#include "models/checkpoint_store.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checksum.h"
#include "runtime/json_reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

namespace tcc::models {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view entryPrefix = "step-", interruptedPrefix = ".interrupted-",
                           manifestName = checkpointManifest;
constexpr int64_t manifestLimit = 1 << 20;

[[noreturn]] void fail(const std::string &path, const char *action, const std::string &reason) {
  throw Error(fmt::format("{}: cannot {}: {}", path, action, reason));
}

void syncFolder(const std::string &path) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    fail(path, "open the folder", std::strerror(errno));
  const int error = ::fsync(handle) != 0 ? errno : 0;
  ::close(handle);
  if (error != 0 && error != EINVAL) // some file systems do not sync folders
    fail(path, "bring the folder to the disk", std::strerror(error));
}

/// The manifest of the files that lie in `folder`.
std::string manifestText(const std::string &folder, int64_t step) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (entry.path().filename() != manifestName)
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  Json files = Json::array();
  for (const std::string &name : names) {
    const MappedFile file((fs::path(folder) / name).string());
    files.push_back({{"name", name}, {"bytes", file.size()}, {"xxh3_128", checksumOf(file.bytes())}});
  }
  return Json{{"format", 1}, {"step", step}, {"files", files}}.dump(2) + "\n";
}

} // namespace

std::optional<int64_t> stepOfCheckpoint(std::string_view name) {
  if (!name.starts_with(entryPrefix))
    return std::nullopt;
  name.remove_prefix(entryPrefix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() && step >= 0 ? std::optional(step) : std::nullopt;
}

std::string checkpointPath(const std::string &folder, int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:09}", entryPrefix, step)).string();
}

std::string checkpointDamage(const std::string &folder, int64_t step) {
  try {
    const MappedFile manifest((fs::path(folder) / manifestName).string());
    if (manifest.size() > manifestLimit)
      return fmt::format("{} has {} bytes, at most {} are expected", manifestName, manifest.size(), manifestLimit);
    const std::string_view text = manifest.text();
    const auto parsed = runtime::parseJson(text, manifestLimit, std::string(manifestName));
    // Byte for byte what the files ask for: so no part of the manifest itself can be damaged unseen.
    if (text == manifestText(folder, step))
      return "";
    const Json json = parsed ? *parsed : Json();
    if (!json.is_object() || !json.contains("files") || !json["files"].is_array())
      return fmt::format("{} is not one", manifestName);
    for (const Json &entry : json["files"]) {
      if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string())
        return fmt::format("{} is not one", manifestName);
      const std::string name = entry["name"];
      const fs::path path = fs::path(folder) / fs::path(name).filename();
      if (!fs::is_regular_file(path))
        return fmt::format("{} is missing", inQuotes(name));
      const MappedFile file(path.string());
      if (entry.value("bytes", Json()) != file.size())
        return fmt::format("{} has {} bytes, {} were written", name, file.size(), entry.value("bytes", Json()).dump());
      if (entry.value("xxh3_128", Json()) != checksumOf(file.bytes()))
        return fmt::format("the bytes of {} are not those that were written", name);
    }
    return fmt::format("{} is not that of these files", manifestName);
  } catch (const Error &error) {
    return error.what();
  } catch (const fs::filesystem_error &error) {
    return error.code().message();
  }
}

std::vector<int64_t> checkpointSteps(const std::string &folder) {
  std::vector<int64_t> result;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const auto step = stepOfCheckpoint(at->path().filename().string()))
      result.push_back(*step);
  if (error && error != std::errc::no_such_file_or_directory)
    fail(folder, "read the folder", error.message());
  std::sort(result.begin(), result.end());
  return result;
}

CheckpointStore::CheckpointStore(const std::string &folder, int64_t keep) : root(folder), keep(keep) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error)
    fail(root, "make the folder", error.message());
  descriptor = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    fail(root, "open the folder", std::strerror(errno));
  // The lock ends with the process, however that ends.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor);
    throw Error(fmt::format("{}: another run writes its checkpoints there, each run needs a folder of its own", root));
  }
  removeInterrupted();
}

CheckpointStore::~CheckpointStore() {
  ::close(descriptor);
}

std::string CheckpointStore::path(int64_t step) const {
  return checkpointPath(root, step);
}

std::vector<int64_t> CheckpointStore::steps() const {
  return checkpointSteps(root);
}

void CheckpointStore::removeInterrupted() {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(interruptedPrefix))
      left.push_back(at->path());
  for (const fs::path &path : left)
    fs::remove_all(path, error);
}

/// An entry leaves its name in one step; only then do its files go.
void CheckpointStore::removeEntry(const std::string &path) {
  const fs::path aside = fs::path(root) / fmt::format("{}removed", interruptedPrefix);
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (!error)
    fs::remove_all(aside, error);
}

void CheckpointStore::removeOldest(int64_t step) {
  std::vector<int64_t> upTo = steps();
  std::erase_if(upTo, [&](int64_t other) { return other > step; });
  for (int64_t other : upTo)
    if (damaged.contains(other))
      removeEntry(path(other));
  std::erase_if(upTo, [&](int64_t other) { return damaged.contains(other); });
  for (size_t i = 0; i + size_t(keep) < upTo.size(); ++i)
    removeEntry(path(upTo[i]));
}

void CheckpointStore::write(int64_t step, const std::function<void(const std::string &folder)> &fill) {
  const fs::path temporary = fs::path(root) / fmt::format("{}{:09}", interruptedPrefix, step);
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  try {
    fs::create_directory(temporary);
    fill(temporary.string());
    const std::string text = manifestText(temporary.string(), step);
    AtomicFile manifest((temporary / manifestName).string());
    manifest.write(text);
    manifest.commit();
    syncFolder(temporary.string());
    const std::string entry = path(step);
    // An entry of this step is there where the run went on from an earlier one: the two change places in one step.
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, entry.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(temporary, ignored);
    } else {
      if (errno != ENOENT) // a file system that cannot exchange
        removeEntry(entry);
      if (::rename(temporary.c_str(), entry.c_str()) != 0)
        fail(entry, "rename the checkpoint into place", std::strerror(errno));
    }
    syncFolder(root);
  } catch (const fs::filesystem_error &error) {
    fs::remove_all(temporary, ignored);
    fail(temporary.string(), "write the checkpoint", error.code().message());
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  damaged.erase(step); // it was replaced
  removeOldest(step);
}

std::optional<int64_t> CheckpointStore::newestIntact(const std::function<void(std::string_view)> &report) {
  const std::optional<int64_t> newest = newestIntactCheckpoint(root, report);
  damaged.clear();
  for (int64_t step : steps())
    if (newest && step > *newest)
      damaged.insert(step);
  return newest;
}

std::optional<int64_t> newestIntactCheckpoint(const std::string &folder,
                                              const std::function<void(std::string_view)> &report) {
  const std::vector<int64_t> all = checkpointSteps(folder);
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const std::string path = checkpointPath(folder, *step), damage = checkpointDamage(path, *step);
    if (damage.empty())
      return *step;
    report(fmt::format("{}: the checkpoint is damaged ({}){}", path, damage,
                       step + 1 == all.rend() ? "" : ", the one before it is tried"));
  }
  return std::nullopt;
}

} // namespace tcc::models
