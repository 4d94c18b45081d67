// Opening shared libraries: candidates in order, every failure remembered for the message.
#include "runtime/device/cuda/library.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

namespace tcc::runtime {
namespace fs = std::filesystem;

namespace {

std::vector<std::string> subfolders(const fs::path &parent, const std::string &prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(parent, error))
    if (entry.path().filename().string().starts_with(prefix) && entry.is_directory(error))
      found.push_back(entry.path().string());
  // A longer version number is a newer one: cuda-13.0 before cuda-9.2.
  std::sort(found.begin(), found.end(),
            [](const std::string &a, const std::string &b) { return std::pair(a.size(), a) > std::pair(b.size(), b); });
  return found;
}

std::string environmentValue(const std::string &name) {
  const char *value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value ? value : "";
}

/// The files to try, in order.
std::vector<std::string> candidates(const LibrarySearch &search) {
  std::vector<std::string> files;
  std::error_code error;
  if (std::string given = environmentValue(search.environment); !given.empty()) {
    if (!fs::is_directory(given, error))
      return {given};
    for (const std::string &name : search.fileNames) {
      files.push_back((fs::path(given) / name).string());
      for (const std::string &folder : environmentFolders(given, search.wheelFolders))
        if (fs::path file = fs::path(folder) / name; fs::exists(file, error))
          files.push_back(file.string());
    }
    return files;
  }
  for (const std::string &name : search.fileNames) {
    for (const std::string &folder : search.folders)
      if (fs::path file = fs::path(folder) / name; fs::exists(file, error))
        files.push_back(file.string());
    files.push_back(name); // last, the loader's own search path: LD_LIBRARY_PATH, ld.so.conf
  }
  return files;
}

} // namespace

Library Library::open(const LibrarySearch &search) {
  std::string reasons, misfits;
  std::vector<void *> seen; // a file may have several names
  for (const std::string &file : candidates(search)) {
    Library library;
    library.filePath = file;
    library.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library.handle) {
      const char *reason = dlerror();
      reasons += "\n  tried " + file + ": " + (reason ? reason : "unknown reason");
      continue;
    }
    if (std::find(seen.begin(), seen.end(), library.handle) != seen.end())
      continue;
    seen.push_back(library.handle);
    const std::string misfit = search.misfit ? search.misfit(library) : "";
    if (misfit.empty())
      return library;
    misfits += "\n  " + file + " " + misfit;
  }
  const bool found = !misfits.empty();
  std::string text = search.title + (found ? " does not fit" + misfits : " could not be opened" + reasons) +
                     (found ? "\n  to get one that does: " : "\n  to get it: ") + search.install;
  if (!search.environment.empty())
    text += "\n  or set " + search.environment + " to the library's file or folder" +
            (search.wheelFolders.empty() ? "" : ", or to a Python environment");
  throw CudaError(text);
}

void *Library::find(const char *name) const {
  return handle ? dlsym(handle, name) : nullptr;
}

void *Library::get(const char *name) const {
  if (void *address = find(name))
    return address;
  throw CudaError(filePath + " has no symbol " + name + ": a newer version of it is needed");
}

std::vector<std::string> toolkitFolders(const std::vector<std::string> &wheelFolders) {
  std::vector<std::string> folders;
  for (const std::string &root : subfolders("/usr/local", "cuda"))
    for (const char *lib : {"lib64", "lib", "lib/x86_64-linux-gnu"})
      folders.push_back(root + "/" + lib);
  std::vector<std::string> environments;
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string root = environmentValue(variable); !root.empty())
      environments.push_back(root);
  std::istringstream path(environmentValue("PATH"));
  std::error_code error;
  for (std::string folder; std::getline(path, folder, ':');)
    if (fs::path bin = folder; bin.is_absolute() && bin.filename() == "bin" && fs::exists(bin / "python3", error))
      environments.push_back(bin.parent_path().string());
  if (std::string home = environmentValue("HOME"); !home.empty())
    environments.push_back(home + "/.local");
  environments.insert(environments.end(), {"/usr/local", "/usr"});
  for (const std::string &root : environments)
    for (std::string &folder : environmentFolders(root, wheelFolders))
      folders.push_back(std::move(folder));
  return folders;
}

std::vector<std::string> environmentFolders(const std::string &root, const std::vector<std::string> &wheelFolders) {
  std::vector<std::string> folders, packages = {root};
  for (const std::string &python : subfolders(root + "/lib", "python3"))
    for (const char *name : {"site-packages", "dist-packages"})
      packages.push_back(python + "/" + name);
  for (const std::string &package : packages)
    for (const std::string &wheel : wheelFolders)
      folders.push_back(package + "/nvidia/" + wheel);
  for (const char *lib : {"lib", "lib64", "targets/x86_64-linux/lib"})
    folders.push_back(root + "/" + lib);
  return folders;
}

} // namespace tcc::runtime
