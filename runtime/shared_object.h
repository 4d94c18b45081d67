// SharedObject: machine code from memory. The verified bytes of an ELF shared object are written to a memfd, which the
// dynamic linker opens, so that debuggers and profilers see an ordinary library.
#pragma once
#include "runtime/error.h"
#include <string>
#include <string_view>
#include <utility>

namespace tcc::runtime {

class SharedObject {
public:
  SharedObject() = default;
  /// Errors: no memfd, or what the dynamic linker says.
  static Expected<SharedObject> load(std::string_view elf, const std::string &name);
  SharedObject(SharedObject &&other) noexcept { *this = std::move(other); }
  SharedObject &operator=(SharedObject &&other) noexcept;
  ~SharedObject();

  /// The address of a symbol, or null.
  void *symbol(const std::string &name) const;

private:
  void *handle = nullptr;
  int fd = -1; // open as long as the library: its path has this number, and the linker knows libraries by their paths
};

} // namespace tcc::runtime
