// LLD in-process. It keeps global state, so one link at a time. It reads and writes files; those are memory that this
// process alone has, so a process that is killed leaves nothing behind.
#include "codegen/cpu/machine_code.h"
#include "codegen/memory_file.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/TimeProfiler.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace tcc::cpu {
namespace {

using runtime::Error;

/// A pipe whose content a thread collects: LLD writes a file that is no regular one as it is.
class CollectingPipe {
public:
  CollectingPipe() = default;
  CollectingPipe(const CollectingPipe &) = delete;
  CollectingPipe &operator=(const CollectingPipe &) = delete;
  ~CollectingPipe() { finish(); }
  Error create() {
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return Error(std::string("cannot make a pipe for the linker: ") + std::strerror(errno));
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    reader = std::thread([this] { collect(); });
    return {};
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends[1]); }
  /// What was written; nobody writes any more.
  std::string finish() {
    if (reader.joinable()) {
      isWritten = true;
      ::close(ends[1]);
      reader.join();
      ::close(ends[0]);
    }
    return std::move(bytes);
  }

private:
  int ends[2] = {-1, -1};
  std::thread reader;
  std::atomic<bool> isWritten = false;
  std::string bytes;

  /// A process that was forked meanwhile may keep the pipe open, so its end is not waited for.
  void collect() {
    constexpr int milliseconds = 5;
    char buffer[1 << 16];
    while (true) {
      const bool isLast = isWritten;
      const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
      if (got > 0) {
        bytes.append(buffer, static_cast<size_t>(got));
        continue;
      }
      if (got == 0 || isLast || (errno != EINTR && errno != EAGAIN))
        return;
      struct pollfd some = {ends[0], POLLIN, 0};
      ::poll(&some, 1, milliseconds);
    }
  }
};

} // namespace

runtime::Expected<std::string> link(llvm::ArrayRef<std::string> flags, llvm::ArrayRef<std::string> objects,
                                    llvm::ArrayRef<std::string> scripts) {
  const llvm::TimeTraceScope traced("link");
  CollectingPipe output;
  if (Error error = output.create())
    return error;
  std::vector<std::string> arguments = {"ld.lld", "--threads=1", "-z", "noexecstack", "-o", output.path()};
  std::deque<MemoryFile> files;
  auto add = [&](llvm::StringRef flag, llvm::StringRef bytes) {
    Error error = files.emplace_back().create(bytes);
    arguments.push_back(flag.str() + files.back().path());
    return error;
  };
  for (const std::string &object : objects)
    if (Error error = add("", object))
      return error;
  for (const std::string &script : scripts)
    if (Error error = add("--version-script=", script))
      return error;
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
    return Error("linking failed: " + messages);
  std::string linked = output.finish();
  if (linked.empty())
    return Error("linking failed: nothing was written" + messages);
  return linked;
}

runtime::Expected<std::string> linkSharedObject(llvm::ArrayRef<std::string> objects,
                                                llvm::ArrayRef<std::pair<std::string, int64_t>> numbers) {
  std::vector<std::string> flags = {"-shared",       "--no-undefined", "--hash-style=gnu", "-O0", "-soname=tcc-kernels",
                                    "--no-rosegment"}; // offsets in the file are those in memory: step libraries use it
                                                       // in place
  for (const auto &[symbol, number] : numbers)
    flags.push_back("--defsym=" + symbol + "=" + std::to_string(number));
  return link(flags, objects);
}

} // namespace tcc::cpu
