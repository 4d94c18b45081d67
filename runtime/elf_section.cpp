#include "runtime/elf_section.h"
#include <cstring>
#include <elf.h>
#include <optional>
#include <string>
#include <vector>

namespace tcc::runtime {
namespace {

template <typename T>
std::optional<T> readAt(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<std::string_view> contentOf(std::string_view bytes, const Elf64_Shdr &section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes.size() ||
      section.sh_size > bytes.size() - section.sh_offset)
    return std::nullopt;
  return bytes.substr(section.sh_offset, section.sh_size);
}

} // namespace

bool isArchive(std::string_view bytes) {
  return bytes.starts_with("!<arch>\n");
}

bool isElf(std::string_view bytes) {
  return bytes.starts_with(std::string_view(ELFMAG, SELFMAG));
}

Expected<std::string_view> artefactOfElf(std::string_view bytes) {
  const Error damaged("ELF file is damaged: its section headers lead out of it");
  const auto header = readAt<Elf64_Ehdr>(bytes, 0);
  if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
    return damaged;
  const auto sectionAt = [&](uint64_t index) -> std::optional<Elf64_Shdr> {
    if (header->e_shoff > bytes.size())
      return std::nullopt;
    return readAt<Elf64_Shdr>(bytes, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto nameSection = sectionAt(header->e_shstrndx);
  const auto names = nameSection ? contentOf(bytes, *nameSection) : std::nullopt;
  if (!names)
    return damaged;
  constexpr size_t shownNames = 3, longestName = 256;
  std::optional<std::string_view> found;
  std::vector<std::string_view> steps; // names of the first ones
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = sectionAt(i);
    if (!section || section->sh_name >= names->size())
      return damaged;
    const std::string_view rest = names->substr(section->sh_name, longestName), name = rest.substr(0, rest.find('\0'));
    if (!name.starts_with(stepSection))
      continue;
    steps.push_back(name.substr(stepSection.size()));
    if (steps.size() == shownNames)
      break;
    if (found)
      continue;
    found = contentOf(bytes, *section);
    if (!found)
      return damaged;
  }
  if (!found)
    return Error("ELF file has no compiled step; tcc -o STEP.so writes one");
  if (steps.size() > 1)
    return Error("ELF file has several compiled steps, `" + std::string(steps[0]) + "`, `" + std::string(steps[1]) +
                 (steps.size() == shownNames ? "` and more" : "`") + "; a file with one is expected");
  return *found;
}

} // namespace tcc::runtime
