#include "codegen/library/system_libraries.h"
#include <link.h>
#include <string_view>

namespace tcc {

std::vector<std::string> systemLibraries() {
  std::vector<std::string> paths;
  const auto addLibrary = [](dl_phdr_info *info, size_t, void *list) {
    const std::string_view path = info->dlpi_name;
    for (std::string_view wanted : {"libstdc++.so", "libgomp.so", "libgcc_s.so", "libm.so", "libc.so", "ld-linux"})
      if (path.substr(path.rfind('/') + 1).starts_with(wanted))
        static_cast<std::vector<std::string> *>(list)->emplace_back(path);
    return 0;
  };
  dl_iterate_phdr(addLibrary, &paths);
  return paths;
}

} // namespace tcc
