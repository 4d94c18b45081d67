#include "tests/cuda_machine/nccl/meeting.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tcc::nccl {
namespace {

constexpr std::size_t slotsBytes = (sizeof(Slot) * mostRanks + 4095) / 4096 * 4096;
constexpr std::size_t allBytes = slotsBytes + mostRanks * mostSent;

} // namespace

const char *nameOf(Kind kind) {
  constexpr const char *names[] = {"all-reduce", "all-gather", "broadcast", "send", "receive"};
  return names[static_cast<int>(kind)];
}

Meeting::Meeting(int file) : file(file) {
  mapped = mmap(nullptr, allBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED)
    throw std::runtime_error("the ranks' memory cannot be mapped");
}

Meeting::~Meeting() {
  munmap(mapped, allBytes);
  close(file);
}

char *Meeting::sent(int rank) const {
  return static_cast<char *>(mapped) + slotsBytes + static_cast<std::size_t>(rank) * mostSent;
}

// The id names an open file of this process, which others of the same user can open too.
std::shared_ptr<Meeting> Meeting::make(char *id) {
  const int file = memfd_create("tcc_nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(allBytes)) != 0)
    throw std::runtime_error("no memory for the ranks");
  struct stat facts = {};
  fstat(file, &facts);
  std::snprintf(id, 128, "%d %d %lu", getpid(), file, static_cast<unsigned long>(facts.st_ino));
  return std::shared_ptr<Meeting>(new Meeting(file));
}

std::shared_ptr<Meeting> Meeting::find(const char *id) {
  int process = 0, number = 0;
  unsigned long inode = 0;
  if (std::sscanf(id, "%d %d %lu", &process, &number, &inode) != 3)
    return nullptr;
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat facts = {};
  if (file < 0)
    return nullptr;
  if (fstat(file, &facts) != 0 || facts.st_ino != inode || facts.st_size != static_cast<off_t>(allBytes)) {
    close(file);
    return nullptr;
  }
  return std::shared_ptr<Meeting>(new Meeting(file));
}

} // namespace tcc::nccl
