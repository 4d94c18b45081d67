// Ranks by MPI. What differs between MPIs (types, constants) is compiled into a shim for each (mpi_shim.c), which is
// opened here.
#include "runtime/ranks/ranks.h"
#include "runtime/ranks/shim.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <numeric>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tcc::runtime {
namespace {

constexpr std::array<const char *, 2> mpiNames{"openmpi", "mpich"};

/// Where shims may lie: beside the library or program that has this function and beside the program, as built and as
/// installed; or where the user says.
std::vector<std::filesystem::path> shimFolders() {
  std::vector<std::filesystem::path> folders;
  if (const char *own = std::getenv("TCC_RANKS_DIR"))
    return {own};
  std::error_code problem;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void *>(&shimFolders), &here) && here.dli_fname) {
    const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, problem);
    if (!problem)
      folders.push_back(library.parent_path() / "tcc");
  }
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  for (const char *relative : {"../lib", "../../lib", "../lib/tcc", "."})
    folders.push_back(program.parent_path() / relative);
  return folders;
}

/// `visibility`: RTLD_GLOBAL, since Open MPI opens parts of itself that look for its symbols there; RTLD_LOCAL for a
/// look at several MPIs, whose functions have the same names.
Expected<const TccRanksShim *> openShim(const std::string &mpi, int visibility) {
  const std::string name = "libtcc_ranks_" + mpi + ".so";
  std::error_code problem;
  for (const std::filesystem::path &folder : shimFolders()) {
    const std::filesystem::path path = folder / name;
    if (!std::filesystem::exists(path, problem))
      continue;
    void *handle = dlopen(path.c_str(), RTLD_NOW | visibility);
    if (!handle)
      return Error("the MPI '" + mpi + "' cannot be opened: " + dlerror());
    const auto shimOf = reinterpret_cast<const TccRanksShim *(*)()>(dlsym(handle, "tcc_ranks_shim"));
    const TccRanksShim *shim = shimOf ? shimOf() : nullptr;
    if (!shim || shim->version != TCC_RANKS_SHIM_VERSION)
      return Error(path.string() + " is of another version of tcc");
    return shim;
  }
  return Error("there is no " + name + " in this build: it is made where CMake finds the MPI's headers (Debian's " +
               (mpi == "mpich" ? "libmpich-dev" : "libopenmpi-dev") + ")");
}

class MpiRanks final : public Ranks {
public:
  MpiRanks(const TccRanksShim &shim, int64_t rank, int64_t count) : shim(shim), own(rank), all(count) {
    char text[4096] = {};
    shim.describe(text, sizeof text);
    const std::string said = text;
    words = said.substr(0, std::min(said.find_first_of(",\n"), said.size()));
    std::replace(words.begin(), words.end(), '\t', ' ');
  }

  int64_t rank() const override { return own; }
  int64_t count() const override { return all; }
  std::string engine() const override { return words; }

  Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                              std::span<const int64_t> receiveBytes) override {
    int64_t unit = 0; // of a size that all are multiples of, so that numbers are small
    for (int64_t bytes : sendBytes)
      unit = std::gcd(unit, bytes);
    for (int64_t bytes : receiveBytes)
      unit = std::gcd(unit, bytes);
    unit = unit % 64 == 0 ? 64 : 1;
    std::vector<int> sends, receives, sendPlaces, receivePlaces;
    const Error tooLarge = placesOf(sendBytes, unit, sends, sendPlaces);
    if (tooLarge)
      return tooLarge;
    if (Error error = placesOf(receiveBytes, unit, receives, receivePlaces))
      return error;
    if (const auto self = static_cast<size_t>(own); sends[self] == 0)
      receives[self] = 0;
    RankWork work = 0;
    const int status = shim.all_to_all(send, sends.data(), sendPlaces.data(), receive, receives.data(),
                                       receivePlaces.data(), static_cast<int>(unit), &work);
    if (!status)
      lists[work] = {std::move(sends), std::move(receives), std::move(sendPlaces), std::move(receivePlaces)};
    return result(status, work, "all_to_all");
  }

  Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) override {
    const int64_t unit = bytes % 64 == 0 ? 64 : 1;
    if (bytes / unit > INT32_MAX)
      return tooMuch(bytes);
    RankWork work = 0;
    const int status = shim.all_gather(send, receive, static_cast<int>(bytes / unit), static_cast<int>(unit), &work);
    return result(status, work, "all_gather");
  }

  Expected<RankWork> allReduce(float *values, int64_t number) override {
    if (number > INT32_MAX)
      return tooMuch(number * 4);
    RankWork work = 0;
    const int status = shim.all_reduce(values, static_cast<int>(number), &work);
    return result(status, work, "all_reduce");
  }

  Expected<RankWork> broadcast(void *data, int64_t bytes, int64_t root) override {
    const int64_t unit = bytes % 64 == 0 ? 64 : 1;
    if (bytes / unit > INT32_MAX)
      return tooMuch(bytes);
    RankWork work = 0;
    const int status =
        shim.broadcast(data, static_cast<int>(bytes / unit), static_cast<int>(unit), static_cast<int>(root), &work);
    return result(status, work, "broadcast");
  }

  Expected<RankWork> barrier() override {
    RankWork work = 0;
    const int status = shim.barrier(&work);
    return result(status, work, "barrier");
  }

  /// MPI moves bytes only while it is asked. Ranks may be more than CPUs, so a waiting one soon lets others run.
  Error wait(RankWork work) override {
    constexpr int yields = 4000;
    const auto start = std::chrono::steady_clock::now();
    bool isLong = false;
    for (int polls = 0;; ++polls) {
      const Expected<bool> done = isOver(work);
      if (isLong && (!done || *done))
        tellWaiting(false);
      if (!done)
        return done.error();
      if (*done)
        return Error::success();
      if (polls < yields) {
        sched_yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (!isLong && tellWaiting && std::chrono::steady_clock::now() - start > std::chrono::seconds(2)) {
        isLong = true;
        tellWaiting(true);
      }
    }
  }

  Expected<bool> isOver(RankWork work) override {
    int done = 0;
    const int status = shim.test(work, &done);
    if (status || done)
      lists.erase(work);
    if (status)
      return failed(status, "a collective");
    return done != 0;
  }

  [[noreturn]] void abort(int status) override {
    shim.abort(status);
    std::_Exit(status);
  }
  void finish() override { shim.finish(); }

private:
  static Error tooMuch(int64_t bytes) {
    return Error("an exchange of " + std::to_string(bytes) + " bytes is more than MPI takes at once");
  }
  static Error placesOf(std::span<const int64_t> bytes, int64_t unit, std::vector<int> &counts,
                        std::vector<int> &places) {
    int64_t place = 0;
    for (int64_t each : bytes) {
      counts.push_back(static_cast<int>(each / unit));
      places.push_back(static_cast<int>(place));
      place += each / unit;
      if (place > INT32_MAX)
        return tooMuch(place * unit);
    }
    return Error::success();
  }
  Error failed(int status, const char *what) const {
    char text[1024] = {};
    shim.explain(status, text, sizeof text);
    std::string said = text; // MPICH's has lines
    said.erase(said.find_last_not_of('\n') + 1);
    std::replace(said.begin(), said.end(), '\n', ' ');
    return Error(std::string(what) + " of rank " + std::to_string(own) + " failed: " + said);
  }
  Expected<RankWork> result(int status, RankWork work, const char *what) const {
    if (status)
      return failed(status, what);
    return work;
  }

  const TccRanksShim &shim;
  int64_t own, all;
  std::string words;
  std::map<RankWork, std::array<std::vector<int>, 4>> lists; // MPI reads them until the exchange is over
};

} // namespace

Error gatherAll(Ranks &ranks, const void *send, void *receive, int64_t bytes) {
  const Expected<RankWork> work = ranks.allGather(send, receive, bytes);
  return work ? ranks.wait(*work) : work.error();
}

Expected<std::shared_ptr<Ranks>> joinRanks() {
  const Expected<Launch> launch = findLaunch();
  if (!launch)
    return launch.error();
  if (launch->count == 1)
    return std::shared_ptr<Ranks>();
  const char *wanted = std::getenv("TCC_MPI");
  const std::string mpi = wanted ? wanted : launch->by.starts_with("MPICH") ? "mpich" : "openmpi";
  if (std::ranges::find(mpiNames, mpi) == mpiNames.end())
    return Error("TCC_MPI is '" + mpi + "'; openmpi and mpich are known");
  const Expected<const TccRanksShim *> shim = openShim(mpi, RTLD_GLOBAL);
  if (!shim)
    return shim.error();
  int64_t rank = 0, count = 0;
  if (const int status = (*shim)->start(&rank, &count)) {
    char text[1024] = {};
    (*shim)->explain(status, text, sizeof text);
    return Error("the MPI '" + mpi + "' does not start: " + text);
  }
  if (rank != launch->rank || count != launch->count)
    return Error(launch->by + " started this process as rank " + std::to_string(launch->rank) + " of " +
                 std::to_string(launch->count) + ", but " + mpi + " sees rank " + std::to_string(rank) + " of " +
                 std::to_string(count) + "; TCC_MPI=openmpi or TCC_MPI=mpich names the MPI of the launcher");
  return std::shared_ptr<Ranks>(std::make_shared<MpiRanks>(**shim, rank, count));
}

std::string describeEngines() {
  std::string text;
  for (const char *mpi : mpiNames) {
    const Expected<const TccRanksShim *> shim = openShim(mpi, RTLD_LOCAL);
    char words[4096] = {};
    if (shim)
      (*shim)->describe(words, sizeof words);
    std::string said = shim ? words : shim.error().message();
    std::replace(said.begin(), said.end(), '\t', ' ');
    text += std::string("ranks by ") + mpi + ": " + said.substr(0, said.find_first_of(",\n")) + "\n";
  }
  return text;
}

} // namespace tcc::runtime
