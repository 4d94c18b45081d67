#include "runtime/shared_object.h"
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U // Linux 6.3: asked for where memfds are not executable by default
#endif

namespace tcc::runtime {
namespace {

#if defined(__x86_64__)
constexpr uint16_t thisMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t thisMachine = EM_AARCH64;
#endif

// The dynamic linker maps what the program headers say without asking how long the file is, and a truncated file then
// dies by a signal. So: a whole header of this machine, and every loaded range inside the bytes.
bool looksWhole(std::string_view elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header)
    return false;
  std::memcpy(&header, elf.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_machine != thisMachine || header.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  auto inside = [&](uint64_t offset, uint64_t bytes) { return offset <= elf.size() && bytes <= elf.size() - offset; };
  if (!inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    return false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!inside(segment.p_offset, segment.p_filesz) && segment.p_type != PT_GNU_STACK)
      return false;
  }
  return true;
}

} // namespace

Expected<SharedObject> SharedObject::load(std::string_view elf, const std::string &name) {
  if (!looksWhole(elf))
    return Error("cannot load the artefact's machine code: it is not a whole ELF shared object for this machine");
  SharedObject object;
  const std::string label = "tcc:" + name.substr(0, 200);
  object.fd = ::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_EXEC);
  if (object.fd < 0 && errno == EINVAL)
    object.fd = ::memfd_create(label.c_str(), MFD_CLOEXEC);
  if (object.fd < 0)
    return Error("cannot make a file in memory for machine code: " + std::string(std::strerror(errno)));
  while (!elf.empty()) {
    const ssize_t written = ::write(object.fd, elf.data(), elf.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return Error("cannot write machine code to memory: " + std::string(std::strerror(errno)));
    elf.remove_prefix(static_cast<size_t>(written));
  }
  const std::string path = "/proc/self/fd/" + std::to_string(object.fd);
  object.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object.handle) {
    const char *reason = ::dlerror();
    return Error("cannot load the artefact's machine code: " + std::string(reason ? reason : "unknown reason"));
  }
  return object;
}

SharedObject &SharedObject::operator=(SharedObject &&other) noexcept {
  std::swap(handle, other.handle);
  std::swap(fd, other.fd);
  return *this;
}

SharedObject::~SharedObject() {
  if (handle)
    ::dlclose(handle);
  if (fd >= 0)
    ::close(fd);
}

void *SharedObject::symbol(const std::string &name) const {
  return handle ? ::dlsym(handle, name.c_str()) : nullptr;
}

} // namespace tcc::runtime
