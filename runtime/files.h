// Files that are never half written, and the check that no output of a program is a file that it reads or writes
// already.
#pragma once
#include "runtime/error.h"
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// A file that appears whole or not at all: bytes go to a temporary file beside `path`, commit() makes them durable and
/// gives them their name (fsync, rename, fsync of the folder). Without commit an older `path` stays as it was. A pipe
/// or a device is written as it is, a link's target is replaced, and what is replaced keeps its permissions. Temporary
/// files that a killed process left behind for the same `path` are removed. Move only.
class AtomicFile {
public:
  /// Errors, here and below, name the path and the system's reason.
  static Expected<AtomicFile> create(const std::string &path);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  Error write(std::string_view bytes);
  Error commit();
  /// For writers of their own; open until commit().
  int descriptor() const { return fd; }

private:
  AtomicFile(std::string target, std::string temporary, int fd);

  std::string target, temporary; ///< no temporary: a pipe or a device
  int fd = -1;
};

/// All of `bytes` through an AtomicFile.
Error writeFileAtomically(const std::string &path, std::string_view bytes);
/// A descriptor that is closed with its owner; negative: none.
struct File {
  int fd = -1;
  ~File();
};

/// All bytes of an open regular file, fewer where it is shortened meanwhile. Errors name `path`.
Expected<std::string> readAll(int descriptor, const std::string &path);
/// All bytes of a regular file.
Expected<std::string> readFile(const std::string &path);

/// Where a program keeps what it can make again: $TCC_CACHE_DIR/`what`, or $XDG_CACHE_HOME/tcc/`what`, or
/// ~/.cache/tcc/`what`; empty where the environment names none of them by an absolute path. It need not exist.
std::string cacheFolder(std::string_view what);

/// The files of one run of a program, collected before any is opened. Files are compared by identity (device and inode,
/// behind links), those that do not exist yet by their resolved paths; pipes and devices are equal to nothing.
class FileUses {
public:
  /// `what` names the use in messages, for example "--data book.txt".
  void reads(std::string what, const std::string &path);
  void writes(std::string what, const std::string &path);
  /// stdin, stdout and stderr (descriptors 0, 1, 2) where they are files.
  void standardStreams(bool readsInput);

  /// Fails where an output is a file that is read or another output.
  Error check() const;

private:
  enum class Kind { read, written, stream };
  struct Use {
    std::string what;
    Kind kind;
    std::string identity; ///< empty: equal to nothing
  };
  std::vector<Use> uses;
};

/// For the start of a program: of stdin, stdout and stderr, those that are closed are opened so that each use of them
/// fails and no file that is opened later gets their numbers; writing to a pipe whose reader is gone, or beyond the
/// largest size that a file may have, is an error (EPIPE, EFBIG) and no end of the process.
void guardStandardStreams();

} // namespace tcc::runtime
