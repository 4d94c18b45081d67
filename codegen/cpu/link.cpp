// LLD in-process. It keeps global state, so one link at a time; it reads and writes files, so a folder of its own.
#include "codegen/cpu/machine_code.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TimeProfiler.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

namespace tcc::cpu {
namespace {

/// A new folder, removed with what is in it.
class ScratchFolder {
public:
  std::error_code create() { return llvm::sys::fs::createUniqueDirectory("tcc-link", folder); }
  ~ScratchFolder() {
    if (!folder.empty())
      llvm::sys::fs::remove_directories(folder);
  }
  std::string file(const llvm::Twine &name) const {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }

private:
  llvm::SmallString<128> folder;
};

runtime::Error writeFile(const std::string &path, llvm::StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (!code) {
    stream << bytes;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? runtime::Error("cannot write '" + path + "': " + code.message()) : runtime::Error::success();
}

} // namespace

runtime::Expected<std::string> link(llvm::ArrayRef<std::string> flags, llvm::ArrayRef<std::string> objects,
                                    llvm::ArrayRef<std::string> scripts) {
  const llvm::TimeTraceScope traced("link");
  ScratchFolder folder;
  if (std::error_code code = folder.create())
    return runtime::Error("cannot make a folder for the linker: " + code.message());
  const std::string output = folder.file("linked");
  std::vector<std::string> arguments = {"ld.lld", "--threads=1", "-z", "noexecstack", "-o", output};
  for (auto [i, object] : llvm::enumerate(objects)) {
    arguments.push_back(folder.file("object" + llvm::Twine(i) + ".o"));
    if (runtime::Error error = writeFile(arguments.back(), object))
      return error;
  }
  for (auto [i, script] : llvm::enumerate(scripts)) {
    const std::string path = folder.file("script" + llvm::Twine(i));
    if (runtime::Error error = writeFile(path, script))
      return error;
    arguments.push_back("--version-script=" + path);
  }
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  static std::mutex oneLink;
  std::lock_guard lock(oneLink);
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0 || !result.canRunAgain)
    return runtime::Error("linking failed: " + messages);
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return runtime::Error("cannot read what was linked: " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

runtime::Expected<std::string> linkSharedObject(llvm::ArrayRef<std::string> objects) {
  return link({"-shared", "--no-undefined", "--hash-style=gnu", "-O0", "-soname=tcc-kernels",
               "--no-rosegment"}, // offsets in the file are those in memory: step libraries use it in place
              objects);
}

} // namespace tcc::cpu
