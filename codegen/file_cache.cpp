// An entry: magic, the key's digest, the bytes, the digest of all before. Its file's name is the key's digest too.
// Digests are BLAKE3's: what an entry holds is run, so no other key may come to its name.
#include "codegen/file_cache.h"
#include "runtime/files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tcc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "tcccach1";
constexpr std::string_view extension = ".entry";
constexpr size_t digestBytes = 32, headBytes = magic.size() + digestBytes;

std::string digest(std::string_view kind, std::string_view bytes) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(kind));
  hasher.update(llvm::StringRef("\0", 1));
  hasher.update(llvm::StringRef(bytes));
  const auto result = hasher.final<digestBytes>();
  return {reinterpret_cast<const char *>(result.data()), result.size()};
}

/// Checks that nobody else can put code into the folder. The cache's own folder may be a link of the user's to another
/// one.
runtime::Error checkOwner(const std::string &folder, bool mayBeLink = false) {
  struct stat status = {};
  if ((mayBeLink ? ::stat(folder.c_str(), &status) : ::lstat(folder.c_str(), &status)) != 0)
    return runtime::Error("`" + folder + "`: " + std::strerror(errno));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
    return runtime::Error("`" + folder + "` is no folder that its user alone can write to; no code is taken from it");
  return runtime::Error::success();
}

/// 64 hexadecimal digits and ".entry", perhaps followed by what the name of a temporary file of a killed writer ends
/// with. A folder that the user names may hold files of others.
bool isOwnName(llvm::StringRef name) {
  constexpr size_t digits = 2 * digestBytes;
  llvm::StringRef rest = name.drop_front(std::min(digits, name.size()));
  return llvm::all_of(name.take_front(digits), llvm::isHexDigit) && rest.consume_front(extension) &&
         (rest.empty() || rest.starts_with("."));
}

/// The file of counts: for each kind its events, and a digest. What is not whole counts nothing.
using Counts = std::array<std::array<int64_t, 3>, FileCache::kinds.size()>;
constexpr std::string_view countsKind = "counts";

std::string bytesOf(const Counts &counts) {
  std::string bytes(reinterpret_cast<const char *>(counts.data()), sizeof counts);
  return bytes + digest(countsKind, bytes);
}

Counts countsIn(int descriptor) {
  Counts counts = {};
  std::string bytes(sizeof counts + digestBytes, '\0');
  if (::pread(descriptor, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return counts;
  std::memcpy(counts.data(), bytes.data(), sizeof counts);
  return bytesOf(counts) == bytes ? counts : Counts{};
}

struct Entry {
  fs::file_time_type used;
  int64_t bytes;
  fs::path path;
};

/// The files of a kind's folder: entries, and what a writer that was killed left of one.
std::vector<Entry> entriesIn(const std::string &kindFolder) {
  std::vector<Entry> entries;
  if (checkOwner(kindFolder))
    return entries;
  std::error_code problem;
  for (fs::directory_iterator file(kindFolder, problem), end; !problem && file != end; file.increment(problem)) {
    if (!isOwnName(file->path().filename().string()))
      continue;
    std::error_code gone; // another process may be dropping as well
    Entry entry{file->last_write_time(gone), static_cast<int64_t>(file->file_size(gone)), file->path()};
    if (!gone)
      entries.push_back(std::move(entry));
  }
  return entries;
}

bool isEntry(const Entry &entry) {
  return entry.path.extension() == extension;
}

/// The first bytes of a file; fewer where there are no more.
std::string firstBytes(const std::string &path, size_t count) {
  const runtime::File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(file.fd, bytes.data(), count, 0);
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return bytes;
}

/// The file's bytes, of a regular file in a folder where nobody but the user can have put or changed it; nothing where
/// it is not that, or has more than `most` bytes.
std::optional<std::string> readOwn(const std::string &folder, const std::string &name, int64_t most) {
  const runtime::File place{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  const runtime::File file{::openat(place.fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat of = {}, in = {};
  auto isOwn = [](const struct stat &status) {
    return status.st_uid == ::geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH));
  };
  if (place.fd < 0 || file.fd < 0 || ::fstat(place.fd, &in) != 0 || ::fstat(file.fd, &of) != 0 || !isOwn(in) ||
      !isOwn(of) || !S_ISREG(of.st_mode) || of.st_size > most)
    return std::nullopt;
  runtime::Expected<std::string> bytes = runtime::readAll(file.fd, name);
  return bytes ? std::optional(std::move(*bytes)) : std::nullopt;
}

/// Removes an entry that cannot be taken, so that it is made again, and says so.
std::string dropDamaged(const std::string &file, bool wasRead) {
  const std::string what = wasRead ? "the entry was damaged" : "the entry was no readable file of its user's alone";
  if (::unlink(file.c_str()) == 0 || errno == ENOENT)
    return what + " and is removed";
  return what + " and cannot be removed: " + std::strerror(errno);
}

bool isSwitchedOff() {
  const char *variable = std::getenv("TCC_CACHE_DIR");
  return variable && variable == std::string_view("off");
}

std::string withoutSlashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  return folder;
}

} // namespace

FileCache::FileCache(std::string folder, int64_t mostBytes)
    : folder(withoutSlashes(std::move(folder))), mostBytes(mostBytes) {}

FileCache FileCache::off(std::string why) {
  FileCache cache;
  cache.reasonOff = std::move(why);
  return cache;
}

FileCache FileCache::ofUser(int64_t mostBytes) {
  std::string folder = userFolder();
  if (!folder.empty())
    return FileCache(std::move(folder), mostBytes);
  return off(isSwitchedOff() ? "by TCC_CACHE_DIR=off"
                             : "since none of TCC_CACHE_DIR, XDG_CACHE_HOME and HOME names its folder");
}

std::string FileCache::userFolder() {
  return isSwitchedOff() ? std::string() : withoutSlashes(runtime::cacheFolder(""));
}

std::string FileCache::fileOf(std::string_view kind, std::string_view key) const {
  return folderOf(kind) + "/" + llvm::toHex(digest(kind, key), /*LowerCase=*/true).append(extension);
}

std::optional<std::string> FileCache::find(std::string_view kind, std::string_view key, std::string *damage) const {
  if (folder.empty() || checkOwner(folder, true) || checkOwner(folderOf(kind)))
    return std::nullopt;
  const std::string file = fileOf(kind, key);
  struct stat status = {};
  if (::lstat(file.c_str(), &status) != 0)
    return std::nullopt;
  const std::optional<std::string> bytes =
      readOwn(folderOf(kind), fs::path(file).filename().string(), std::max(mostBytes, usualBytes));
  const std::string_view whole = bytes ? std::string_view(*bytes) : std::string_view();
  const size_t end = whole.size() - std::min(digestBytes, whole.size());
  if (end < headBytes || !whole.starts_with(magic) || whole.substr(magic.size(), digestBytes) != digest(kind, key) ||
      digest(kind, whole.substr(0, end)) != whole.substr(end)) {
    const std::string wrong = dropDamaged(file, bytes.has_value());
    if (damage)
      *damage = wrong;
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0); // used now
  return std::string(whole.substr(headBytes, end - headBytes));
}

runtime::Error FileCache::make(const std::string &kindFolder) const {
  if (runtime::Error error = runtime::makePrivateFolder(folder))
    return error;
  struct stat status = {};
  const bool isOfUsersChoice = std::getenv("TCC_CACHE_DIR") || folder != userFolder();
  if (!isOfUsersChoice && ::lstat(folder.c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
      S_ISDIR(status.st_mode) && (status.st_mode & (S_IWGRP | S_IWOTH)))
    ::chmod(folder.c_str(), status.st_mode & 07777 & ~mode_t{S_IWGRP | S_IWOTH}); // made where the umask is 002
  if (runtime::Error error = checkOwner(folder, true))
    return error;
  if (runtime::Error error = runtime::makePrivateFolder(kindFolder))
    return error;
  return checkOwner(kindFolder);
}

runtime::Error FileCache::store(std::string_view kind, std::string_view key, std::string_view bytes) const {
  if (folder.empty())
    return runtime::Error::success();
  if (runtime::Error error = make(folderOf(kind)))
    return error;
  std::string entry = std::string(magic) + digest(kind, key) + std::string(bytes);
  entry += digest(kind, entry);
  if (static_cast<int64_t>(entry.size()) > mostBytes / 2)
    return runtime::Error("the entry has " + std::to_string(entry.size()) + " bytes, the cache at most " +
                          std::to_string(mostBytes));
  const std::string path = fileOf(kind, key);
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    ::unlink(path.c_str()); // no entry, and nothing to write through
  auto file = runtime::AtomicFile::create(path);
  if (!file)
    return file.error();
  ::fchmod(file->descriptor(), 0600);
  if (runtime::Error error = file->write(entry))
    return error;
  if (runtime::Error error = file->commit())
    return error;
  dropOldest(digest(kind, key), static_cast<int64_t>(entry.size()));
  return {};
}

/// Walks through all entries, which may be tens of thousands if they are small. So after a small entry was stored, it
/// does so only once in sixteen times on average, and then drops as much as may have come meanwhile.
void FileCache::dropOldest(std::string_view digest, int64_t added) const {
  if (added < mostBytes / 64 && static_cast<unsigned char>(digest[0]) % 16 != 0)
    return;
  std::vector<Entry> entries;
  for (std::string_view kind : kinds)
    llvm::append_range(entries, entriesIn(folderOf(kind)));
  int64_t total = 0;
  for (const Entry &entry : entries)
    total += entry.bytes;
  if (total <= mostBytes)
    return;
  llvm::sort(entries, [](const Entry &a, const Entry &b) { return a.used < b.used; });
  std::map<std::string, int64_t> dropped; // of each kind
  for (const Entry &entry : entries) {
    if (total <= mostBytes / 4 * 3) // room for some, so that not each store drops
      break;
    std::error_code problem;
    fs::remove(entry.path, problem);
    dropped[entry.path.parent_path().filename().string()] += isEntry(entry);
    total -= entry.bytes;
  }
  for (const auto &[kind, times] : dropped)
    count(kind, Event::eviction, times);
}

/// One small write under a lock, which a dying process gives back; the file is never longer.
void FileCache::count(std::string_view kind, Event event, int64_t times) const {
  const auto *place = llvm::find(kinds, kind);
  if (folder.empty() || place == kinds.end() || times <= 0 || checkOwner(folder, true))
    return;
  const runtime::File file{::open(countsFile().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)};
  struct stat status = {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode))
    return;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  constexpr int attempts = 50;
  for (int attempt = 0; ::fcntl(file.fd, F_OFD_SETLK, &whole) != 0; ++attempt) {
    if (attempt == attempts || (errno != EAGAIN && errno != EACCES && errno != EINTR))
      return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  Counts counts = countsIn(file.fd);
  counts[static_cast<size_t>(place - kinds.begin())][static_cast<size_t>(event)] += times;
  const std::string bytes = bytesOf(counts);
  (void)!::pwrite(file.fd, bytes.data(), bytes.size(), 0);
  whole.l_type = F_UNLCK;
  ::fcntl(file.fd, F_OFD_SETLK, &whole); // a process that was forked meanwhile would keep it
}

std::vector<std::string> FileCache::newest(std::string_view kind, size_t most, size_t bytes) const {
  std::vector<std::string> heads;
  if (folder.empty() || checkOwner(folder, true) || checkOwner(folderOf(kind)))
    return heads;
  std::vector<Entry> entries = entriesIn(folderOf(kind));
  llvm::erase_if(entries, [](const Entry &entry) { return !isEntry(entry); });
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(std::min(most, entries.size()));
  std::partial_sort(entries.begin(), end, entries.end(),
                    [](const Entry &a, const Entry &b) { return a.used > b.used; });
  for (const Entry &entry : llvm::make_range(entries.begin(), end)) {
    const std::string head = firstBytes(entry.path.string(), headBytes + bytes);
    if (head.starts_with(magic) && head.size() > headBytes)
      heads.push_back(head.substr(headBytes));
  }
  return heads;
}

FileCache::Turn::~Turn() {
  if (descriptor < 0)
    return;
  struct flock all = {};
  all.l_type = F_UNLCK;
  all.l_whence = SEEK_SET;
  ::fcntl(descriptor, F_OFD_SETLK, &all); // a process that was forked meanwhile would keep it
  ::close(descriptor);
}

/// One file holds the locks of all keys, so that no lock file is left to remove. Each key locks one of its 2^62 bytes.
FileCache::Turn FileCache::wait(std::string_view kind, std::string_view key, double seconds) const {
  using Clock = std::chrono::steady_clock;
  Turn turn;
  if (folder.empty() || make(folderOf(kind)))
    return turn;
  turn.descriptor = ::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (turn.descriptor < 0)
    return turn;
  uint64_t place = 0;
  std::memcpy(&place, digest(kind, key).data(), sizeof place);
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(place >> 2);
  range.l_len = 1;
  const Clock::time_point start = Clock::now();
  while (::fcntl(turn.descriptor, F_OFD_SETLK, &range) != 0) {
    const bool isHeld = errno == EAGAIN || errno == EACCES || errno == EINTR;
    if (!isHeld || std::chrono::duration<double>(Clock::now() - start).count() >= seconds)
      return turn;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return turn;
}

std::vector<FileCache::Usage> FileCache::usage() const {
  const runtime::File file{::open(countsFile().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  const Counts counts = countsIn(file.fd);
  std::vector<Usage> all;
  for (auto [kind, counted] : llvm::zip_equal(kinds, counts)) {
    Usage &one = all.emplace_back(Usage{std::string(kind)});
    one.hits = counted[static_cast<size_t>(Event::hit)];
    one.misses = counted[static_cast<size_t>(Event::miss)];
    one.evictions = counted[static_cast<size_t>(Event::eviction)];
    for (const Entry &entry : folder.empty() ? std::vector<Entry>() : entriesIn(folderOf(kind))) {
      one.entries += isEntry(entry);
      one.bytes += entry.bytes;
    }
  }
  return all;
}

runtime::Error FileCache::clear() const {
  for (std::string_view kind : kinds) {
    std::error_code problem;
    if (folder.empty() || !fs::exists(folderOf(kind), problem))
      continue;
    if (runtime::Error error = checkOwner(folderOf(kind)))
      return error;
    for (const Entry &entry : entriesIn(folderOf(kind)))
      if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT)
        return runtime::Error("`" + entry.path.string() + "`: " + std::strerror(errno));
  }
  if (!folder.empty())
    ::unlink(countsFile().c_str());
  return {};
}

} // namespace tcc
