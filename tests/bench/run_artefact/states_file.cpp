#include "states_file.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"

#include <cstring>

namespace tcc::runtime {

Expected<std::map<std::string, std::string>> readStates(const std::string &path) {
  auto content = readFile(path);
  if (!content)
    return content.error();
  uint64_t length = 0;
  if (content->size() >= 8)
    std::memcpy(&length, content->data(), 8);
  if (length == 0 || length > content->size() - 8)
    return Error("`" + path + "` is no safetensors file: it has " + std::to_string(content->size()) + " bytes and a " +
                 "header of " + std::to_string(length));
  const std::string_view data = std::string_view(*content).substr(8 + length);
  auto header = parseJson(std::string_view(*content).substr(8, length), int64_t{100} << 20, "`" + path + "`");
  if (!header)
    return header.error();
  std::map<std::string, std::string> tensors;
  JsonReader reader("`" + path + "`");
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__")
      continue;
    const std::string dtype = reader.string(entry, "dtype");
    const Json &offsets = reader.list(entry, "data_offsets", 2);
    if (reader.error())
      return reader.error();
    if (dtype != "F32" || offsets.size() != 2)
      return Error("`" + path + "`: `" + name + "` is of " + dtype + "; F32 is read");
    const int64_t begin = reader.asInteger(offsets[0], 0), end = reader.asInteger(offsets[1], 0);
    if (reader.error() || begin > end || end > static_cast<int64_t>(data.size()))
      return Error("`" + path + "`: `" + name + "` lies outside of the file");
    tensors[name] = data.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  return tensors;
}

} // namespace tcc::runtime
