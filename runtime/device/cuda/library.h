// A shared library opened at run time, and the places where NVIDIA's libraries are found. In: names and an environment
// variable; out: an open library, or one text that says what was tried and how to install it.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tcc::runtime {

/// Something of CUDA is missing or failed; what() is one clear text for the user.
class CudaError : public std::runtime_error {
public:
  explicit CudaError(const std::string &text, int code = 0) : std::runtime_error(text), resultCode(code) {}
  /// The driver's result where a driver call failed, otherwise 0.
  int code() const { return resultCode; }

private:
  int resultCode;
};

class Library;

/// What to look for: the first of `fileNames` anywhere before the second. `environment` names a variable that holds a
/// file or a folder and, when set, is the only place tried; below a folder, where environments and packages of Python
/// have `wheelFolders`. `install` is the line that a user can paste.
struct LibrarySearch {
  std::string title;
  std::string environment;
  std::vector<std::string> fileNames;
  std::vector<std::string> folders;
  std::string install;
  /// Why a library that has been opened is not taken, or an empty text; then the search goes on.
  std::function<std::string(const Library &)> misfit = {};
  std::vector<std::string> wheelFolders = {}; ///< "cuda_nvrtc/lib"
};

/// An open library. It stays in the process to its end: threads, handlers and contexts that it has made may outlive
/// whatever asked for it.
class Library {
public:
  /// Opens the first candidate that loads and fits; throws CudaError with the install line and every reason, or where
  /// there are libraries that do not fit with theirs alone.
  static Library open(const LibrarySearch &search);

  /// The address of `name`, or null.
  void *find(const char *name) const;
  /// The address of `name`; throws CudaError naming symbol and file.
  void *get(const char *name) const;
  /// The file that was opened.
  const std::string &path() const { return filePath; }

private:
  void *handle = nullptr;
  std::string filePath;
};

/// Folders that hold CUDA's toolkit libraries: /usr/local/cuda*/lib*, newest version first, then where pip and conda
/// put them (environmentFolders) in $VIRTUAL_ENV, $CONDA_PREFIX, beside each python3 of $PATH, the user's, the
/// system's.
std::vector<std::string> toolkitFolders(const std::vector<std::string> &wheelFolders);
/// The folders of a Python environment that may hold the libraries: "nvidia/cuda_nvrtc/lib" in its site-packages,
/// conda's "lib" and "targets/x86_64-linux/lib". `root` is the environment, or site-packages itself.
std::vector<std::string> environmentFolders(const std::string &root, const std::vector<std::string> &wheelFolders);

} // namespace tcc::runtime
