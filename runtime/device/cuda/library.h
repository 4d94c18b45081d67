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

/// What to look for. The first of `fileNames` is looked for everywhere before the second one is. `environment` names a
/// variable that holds a file or a folder; if it is set, no other place is tried. Below such a folder the places are
/// tried where environments and packages of Python have `wheelFolders`. `install` is a line that a user can paste.
struct LibrarySearch {
  std::string title;
  std::string environment;
  std::vector<std::string> fileNames;
  std::vector<std::string> folders;
  std::string install;
  /// Says why a library that has been opened is not taken; the search then goes on. An empty text takes it.
  std::function<std::string(const Library &)> misfit = {};
  std::vector<std::string> wheelFolders = {}; ///< "cuda_nvrtc/lib"
};

/// An open library. It stays open until the process ends, since threads, handlers and contexts that it has made may
/// outlive whatever asked for it.
class Library {
public:
  /// Opens the first candidate that loads and fits. Throws CudaError with the install line and reasons: if some
  /// libraries load and do not fit, why they do not; else why each candidate did not load.
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

/// Folders that may hold the libraries of CUDA's toolkit. First comes /usr/local/cuda*/lib*, the newest version first.
/// Then come the folders of pip and conda (environmentFolders) in $VIRTUAL_ENV, in $CONDA_PREFIX, beside each python3
/// of $PATH, and in the user's and the system's site-packages.
std::vector<std::string> toolkitFolders(const std::vector<std::string> &wheelFolders);
/// The folders of a Python environment that may hold the libraries: "nvidia/cuda_nvrtc/lib" in its site-packages,
/// conda's "lib" and "targets/x86_64-linux/lib". `root` is the environment, or site-packages itself.
std::vector<std::string> environmentFolders(const std::string &root, const std::vector<std::string> &wheelFolders);

} // namespace tcc::runtime
