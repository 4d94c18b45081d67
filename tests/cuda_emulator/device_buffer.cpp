#include "tests/cuda_emulator/machine.h"

#include <cstring>
#include <new>
#include <sys/mman.h>

namespace tcc::emulator {

static constexpr std::size_t pageBytes = 4096, alignment = 256;

DeviceBuffer::DeviceBuffer(std::size_t bytes, std::string name) : label(std::move(name)), size(bytes) {
  // The last bytes lie before a page without access, as closely as the alignment of device memory allows.
  std::size_t used = (bytes + alignment - 1) / alignment * alignment;
  std::size_t pages = (used + pageBytes - 1) / pageBytes * pageBytes;
  mappedBytes = pages + 2 * pageBytes;
  mapping = static_cast<char *>(mmap(nullptr, mappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (mapping == MAP_FAILED)
    throw std::bad_alloc();
  mprotect(mapping + pageBytes, pages, PROT_READ | PROT_WRITE);
  base = mapping + pageBytes + pages - used;
  poison();
#ifdef TCC_EMULATOR_ASAN
  __asan_poison_memory_region(mapping + pageBytes, pages - used);
  __asan_poison_memory_region(base + bytes, used - bytes);
#endif
  Machine::get().addBuffer(this);
}

DeviceBuffer::~DeviceBuffer() {
  Machine::get().removeBuffer(this);
#ifdef TCC_EMULATOR_ASAN
  __asan_unpoison_memory_region(mapping + pageBytes, mappedBytes - 2 * pageBytes);
#endif
  munmap(mapping, mappedBytes);
}

void DeviceBuffer::setAccessible(bool accessible) {
  mprotect(mapping + pageBytes, mappedBytes - 2 * pageBytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void DeviceBuffer::retire() {
  retired = true;
  Machine::get().forgetRecentBuffers();
  shadow = nullptr;
  setAccessible(false);
  madvise(mapping + pageBytes, mappedBytes - 2 * pageBytes, MADV_DONTNEED);
}

void DeviceBuffer::poison() {
  std::memset(base, 0xff, size);
}

} // namespace tcc::emulator
