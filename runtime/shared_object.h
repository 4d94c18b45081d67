// Machine code from memory: the verified bytes of an ELF shared object in a memfd, opened by the dynamic linker, so
// that debuggers and profilers see an ordinary library.
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
  int fd = -1; // open as long as the library: the linker knows libraries by path, and this fd's number is the path
};

} // namespace tcc::runtime
