// A cubin is an ELF file. Its section .nv.info is a list of attributes, each with a format byte, a kind byte and 2
// bytes that are its value or count the bytes of one. Those about a kernel hold the number of its symbol and one
// figure. Shared memory is the size of the section .nv.shared.KERNEL; on GPUs that keep 1 KiB of each block's for
// themselves, which have the section .nv.shared.reserved.0, it is that much larger.
#include "codegen/cuda/cubin.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/Endian.h"

using llvm::StringRef;
using llvm::object::ELF64LE;
using llvm::object::ELF64LEFile;

namespace tcc::cuda {
namespace {

// Numbers in attributes; nvdisasm and ptxas call them EIFMT_SVAL, EIATTR_MIN_STACK_SIZE and EIATTR_REGCOUNT.
constexpr uint8_t hasBytes = 4, stackSize = 0x12, registerCount = 0x2f;

/// An attribute's value of 8 bytes: a symbol, and a figure of it.
struct Figure {
  uint8_t kind;
  uint32_t symbol, value;
};

std::vector<Figure> figuresIn(llvm::ArrayRef<uint8_t> info) {
  std::vector<Figure> figures;
  while (info.size() >= 4) {
    const uint8_t format = info[0], kind = info[1];
    const size_t bytes = format == hasBytes ? llvm::support::endian::read16le(&info[2]) : 0;
    info = info.drop_front(4);
    if (bytes > info.size())
      break;
    if (bytes == 8)
      figures.push_back({kind, llvm::support::endian::read32le(&info[0]), llvm::support::endian::read32le(&info[4])});
    info = info.drop_front(bytes);
  }
  return figures;
}

constexpr int64_t keptShared = 1024;

/// The sections that are asked for, by name.
struct Sections {
  std::vector<Figure> figures;
  llvm::StringMap<int64_t> shared; // bytes by kernel
  int64_t kept = 0;                // of each of them, for the GPU
  const ELF64LE::Shdr *symbols = nullptr;
};

llvm::Expected<Sections> sectionsOf(const ELF64LEFile &file) {
  Sections found;
  auto headers = file.sections();
  if (!headers)
    return headers.takeError();
  for (const ELF64LE::Shdr &header : *headers) {
    llvm::Expected<StringRef> name = file.getSectionName(header);
    if (!name)
      return name.takeError();
    if (header.sh_type == llvm::ELF::SHT_SYMTAB)
      found.symbols = &header;
    if (*name == ".nv.shared.reserved.0")
      found.kept = keptShared;
    else if (StringRef kernel = *name; kernel.consume_front(".nv.shared."))
      found.shared[kernel] = static_cast<int64_t>(header.sh_size);
    if (*name != ".nv.info")
      continue;
    llvm::Expected<llvm::ArrayRef<uint8_t>> info = file.getSectionContents(header);
    if (!info)
      return info.takeError();
    found.figures = figuresIn(*info);
  }
  return found;
}

llvm::Expected<std::vector<KernelUse>> usesIn(StringRef cubin) {
  llvm::Expected<ELF64LEFile> file = ELF64LEFile::create(cubin);
  if (!file)
    return file.takeError();
  llvm::Expected<Sections> sections = sectionsOf(*file);
  if (!sections)
    return sections.takeError();
  std::vector<KernelUse> uses;
  if (!sections->symbols)
    return uses;
  llvm::Expected<StringRef> names = file->getStringTableForSymtab(*sections->symbols);
  if (!names)
    return names.takeError();
  const auto useOf = [&](StringRef kernel) -> KernelUse & {
    const auto known = llvm::find_if(uses, [&](const KernelUse &use) { return use.symbol == kernel; });
    if (known != uses.end())
      return *known;
    const int64_t shared = std::max<int64_t>(0, sections->shared.lookup(kernel) - sections->kept);
    return uses.emplace_back(KernelUse{.symbol = kernel.str(), .sharedBytes = shared});
  };
  for (const auto &[kind, symbol, value] : sections->figures) {
    if (kind != registerCount && kind != stackSize)
      continue;
    auto entry = file->getSymbol(sections->symbols, symbol);
    if (!entry)
      return entry.takeError();
    llvm::Expected<StringRef> name = (*entry)->getName(*names);
    if (!name)
      return name.takeError();
    if (kind == registerCount)
      useOf(*name).registers = static_cast<int>(std::min(value, 255u));
    else
      useOf(*name).stackBytes = value;
  }
  return uses;
}

} // namespace

runtime::Expected<std::vector<KernelUse>> usesInCubin(StringRef cubin) {
  llvm::Expected<std::vector<KernelUse>> uses = usesIn(cubin);
  if (!uses)
    return runtime::Error("the machine code does not say what it takes: " + llvm::toString(uses.takeError()));
  if (uses->empty())
    return runtime::Error("the machine code does not say what it takes: it names no registers");
  return std::move(*uses);
}

} // namespace tcc::cuda
