// Atomic files by a locked temporary file; identities of files.
#include "runtime/files.h"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tcc::runtime {
namespace {

constexpr std::string_view temporaryMark = ".tcc-tmp-", randomPart = "XXXXXX";
constexpr int mostLinks = 40; // as the kernel's own limit

Error systemError(const std::string &what, const std::string &path) {
  return Error("cannot " + what + " `" + path + "`: " + std::strerror(errno));
}

/// Closes on every way out.
std::string folderOf(const std::string &path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
std::string nameOf(const std::string &path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// The path to which `path` leads through links. The last link may lead to a file that does not exist yet.
std::string behindLinks(std::string path) {
  for (int links = 0; links < mostLinks; ++links) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0)
      break;
    const std::string next(target, static_cast<size_t>(length));
    path = next.starts_with('/') ? next : folderOf(path) + "/" + next;
  }
  return path;
}

/// Removes what killed writers of `target` left: temporary files that nobody holds a lock on.
void removeLeftovers(const std::string &target) {
  const std::string folder = folderOf(target), prefix = nameOf(target) + std::string(temporaryMark);
  DIR *entries = ::opendir(folder.c_str());
  if (!entries)
    return;
  while (const dirent *entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || name.size() != prefix.size() + randomPart.size())
      continue;
    const std::string path = folder + "/" + entry->d_name;
    const File file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    if (file.fd >= 0 && ::flock(file.fd, LOCK_EX | LOCK_NB) == 0)
      ::unlink(path.c_str());
  }
  ::closedir(entries);
}

/// A new temporary file for `target`, locked while it is open so that no other writer takes it for a leftover. Its name
/// goes to `temporary`; -1 and errno where it cannot be made.
int makeTemporary(const std::string &target, std::string &temporary) {
  while (true) {
    temporary = target + std::string(temporaryMark) + std::string(randomPart);
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0)
      return fd;
    struct stat status;
    ::flock(fd, LOCK_EX); // on a file system without locks, nobody removes anything either
    if (::fstat(fd, &status) == 0 && status.st_nlink > 0)
      return fd;
    ::close(fd); // another writer removed it between its making and its lock
  }
}

/// The permissions of the file that is replaced, or those of a new one.
mode_t modeFor(const std::string &target) {
  struct stat status;
  if (::stat(target.c_str(), &status) == 0)
    return status.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

std::string identityOf(const struct stat &status) {
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return {};
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

std::string identityOf(const std::string &given) {
  struct stat status;
  if (::stat(given.c_str(), &status) == 0)
    return identityOf(status);
  std::string path = behindLinks(given);
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(folderOf(path), problem);
  return problem ? path : (folder / nameOf(path)).string();
}

} // namespace

File::~File() {
  if (fd >= 0)
    ::close(fd);
}

AtomicFile::AtomicFile(std::string target, std::string temporary, int fd)
    : target(std::move(target)), temporary(std::move(temporary)), fd(fd) {}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : target(std::move(other.target)), temporary(std::move(other.temporary)), fd(std::exchange(other.fd, -1)) {}

Expected<AtomicFile> AtomicFile::create(const std::string &path) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return systemError("write", path);
  }
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // A pipe that nobody reads would hold the program until somebody does.
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENXIO && S_ISFIFO(status.st_mode))
      return Error("cannot write `" + path + "`: it is a pipe that no process reads");
    if (fd >= 0)
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd < 0 ? Expected<AtomicFile>(systemError("write", path)) : AtomicFile(path, {}, fd);
  }
  const std::string target = behindLinks(path);
  if (::access(target.c_str(), W_OK) != 0 && errno != ENOENT) // replacing needs the folder's permission alone
    return systemError("write", path);
  removeLeftovers(target);
  std::string temporary;
  const int fd = makeTemporary(target, temporary);
  if (fd < 0)
    return systemError("write", path);
  ::fchmod(fd, modeFor(target)); // mkostemp makes the file private
  return AtomicFile(target, temporary, fd);
}

AtomicFile::~AtomicFile() {
  if (fd < 0)
    return;
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  ::close(fd); // last: the lock goes with it
}

Error AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError("write", target);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Error::success();
}

Error AtomicFile::commit() {
  if (temporary.empty())
    return ::close(std::exchange(fd, -1)) == 0 ? Error::success() : systemError("write", target);
  if (::fsync(fd) != 0 || ::rename(temporary.c_str(), target.c_str()) != 0)
    return systemError("write", target);
  ::close(std::exchange(fd, -1));
  // The file is in place; a folder that cannot be opened or synced, as on some file systems, takes nothing from it.
  const File folder{::open(folderOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0)
    ::fsync(folder.fd);
  return Error::success();
}

Error checkWritable(const std::string &path) {
  std::error_code problem;
  if (path.empty() || std::filesystem::is_other(path, problem))
    return {};
  const auto file = AtomicFile::create(path);
  return file ? Error() : file.error();
}

Error writeFileAtomically(const std::string &path, std::string_view bytes) {
  auto file = AtomicFile::create(path);
  if (!file)
    return file.error();
  if (Error error = file->write(bytes))
    return error;
  return file->commit();
}

Expected<std::string> readFile(const std::string &path) {
  const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  return file.fd < 0 ? systemError("open", path) : readAll(file.fd, path);
}

Expected<std::string> readAll(int descriptor, const std::string &path) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0)
    return systemError("read", path);
  if (!S_ISREG(status.st_mode))
    return Error("cannot read `" + path + "`: it is not a regular file");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError("read", path);
    if (got == 0)
      break; // shortened while it is read
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

std::string cacheFolder(std::string_view what) {
  const char *own = std::getenv("TCC_CACHE_DIR"), *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (own && *own && own != std::string_view("off")) {
    std::error_code unknown; // where the working directory is gone
    const std::filesystem::path folder = std::filesystem::absolute(own, unknown);
    return unknown ? std::string() : (folder / what).string();
  }
  if (cache && *cache == '/')
    return (std::filesystem::path(cache) / "tcc" / what).string();
  if (home && *home == '/')
    return (std::filesystem::path(home) / ".cache/tcc" / what).string();
  return {};
}

Error makePrivateFolder(const std::string &path) {
  if (::mkdir(path.c_str(), 0700) == 0)
    return {};
  if (errno == ENOENT) {
    const std::string above = std::filesystem::path(path).parent_path().string();
    if (above.empty() || above == path)
      return systemError("make", path);
    if (Error error = makePrivateFolder(above))
      return error;
    if (::mkdir(path.c_str(), 0700) == 0)
      return {};
  }
  const int reason = errno;
  std::error_code unknown;
  if (reason == EEXIST && std::filesystem::is_directory(path, unknown))
    return {};
  errno = reason;
  return systemError("make the folder", path);
}

void FileUses::reads(std::string what, const std::string &path) {
  uses.push_back({std::move(what), Kind::read, identityOf(path)});
}

void FileUses::writes(std::string what, const std::string &path) {
  uses.push_back({std::move(what), Kind::written, identityOf(path)});
}

void FileUses::standardStreams(bool readsInput) {
  struct stat status;
  if (readsInput && ::fstat(STDIN_FILENO, &status) == 0)
    uses.push_back({"stdin", Kind::read, identityOf(status)});
  if (::fstat(STDOUT_FILENO, &status) == 0)
    uses.push_back({"stdout", Kind::stream, identityOf(status)});
  if (::fstat(STDERR_FILENO, &status) == 0)
    uses.push_back({"stderr", Kind::stream, identityOf(status)});
}

Error FileUses::check() const {
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const Use &later = uses[i], &earlier = uses[j];
      // Files may be read twice, and stdout and stderr may share one.
      const bool harmless = later.kind == earlier.kind && later.kind != Kind::written;
      if (later.identity.empty() || later.identity != earlier.identity || harmless)
        continue;
      const Use &read = later.kind == Kind::read ? later : earlier;
      const Use &output = later.kind == Kind::read ? earlier : later;
      return Error(output.what + " is the same file as " + read.what +
                   (read.kind == Kind::read ? ", which is read" : "") +
                   "; no output may be a file that is read or another output");
    }
  return Error::success();
}

void guardStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) // open() gives the lowest free number, which is this one; the direction is wrong
        [[maybe_unused]]
      const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace tcc::runtime
