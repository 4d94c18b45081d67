// AtomicFile: a file that is never seen half written. FileUses: the check that no output of a program is a file that it
// reads, or another output.
#pragma once
#include "runtime/error.h"
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// A file that appears whole or not at all. Bytes go to a temporary file beside `path`; commit() makes them durable and
/// gives them their name (fsync, rename, fsync of the folder). Without commit() an older file at `path` stays as it
/// was. A file that is replaced keeps its permissions. If `path` is a link, its target is replaced; if it is a pipe or
/// a device, it is written directly. Temporary files that a killed process left for the same `path` are removed. Move
/// only.
class AtomicFile {
public:
  /// Errors, here and below, name the path and the system's reason.
  static Expected<AtomicFile> create(const std::string &path);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  Error write(std::string_view bytes);
  Error commit();
  /// The descriptor, for callers that write by themselves; it is open until commit().
  int descriptor() const { return fd; }

private:
  AtomicFile(std::string target, std::string temporary, int fd);

  std::string target, temporary; ///< `temporary` is empty for a pipe or a device
  int fd = -1;
};

/// Whether a file could be written at `path`: one is made under a temporary name, and goes at once. Pipes and devices
/// are not tried, since opening them is use; nor is an empty path.
Error checkWritable(const std::string &path);

/// Writes all of `bytes` through an AtomicFile.
Error writeFileAtomically(const std::string &path, std::string_view bytes);
/// A descriptor that is closed with its owner; negative: none.
struct File {
  int fd = -1;
  ~File();
};

/// All bytes of an open regular file; fewer if it is shortened meanwhile. Errors name `path`.
Expected<std::string> readAll(int descriptor, const std::string &path);
/// All bytes of a regular file.
Expected<std::string> readFile(const std::string &path);

/// The folder for things that a program can make again: $TCC_CACHE_DIR/`what`, or $XDG_CACHE_HOME/tcc/`what`, or
/// ~/.cache/tcc/`what`. It need not exist. TCC_CACHE_DIR may be relative to the working directory, and `off` is no
/// folder; the others count as absolute paths alone. The result is empty if none of them names a folder.
std::string cacheFolder(std::string_view what);

/// Makes a folder, and those above it that are missing, for the user alone (mode 0700). One that is there stays as it
/// is. The error names the folder that cannot be made.
Error makePrivateFolder(const std::string &path);

/// The files of one run of a program, collected before any is opened. Files are compared by device and inode, after
/// links were followed; files that do not exist yet are compared by their resolved paths. Pipes and devices are equal
/// to nothing.
class FileUses {
public:
  /// `what` names the use in messages, for example "--data book.txt".
  void reads(std::string what, const std::string &path);
  void writes(std::string what, const std::string &path);
  /// Adds those of stdin, stdout and stderr (descriptors 0, 1, 2) that are files.
  void standardStreams(bool readsInput);

  /// Fails if an output is a file that is read, or another output.
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

/// To be called at the start of a program. If stdin, stdout or stderr is closed, its descriptor is opened in such a way
/// that each use of it fails; a file that is opened later then cannot get its number. From now on a write to a pipe
/// whose reader is gone, or beyond the largest size that a file may have, gives an error (EPIPE, EFBIG) and does not
/// end the process.
void guardStandardStreams();

} // namespace tcc::runtime
