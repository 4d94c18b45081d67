// The format: one line of text (magic, version, architecture, size and checksum of the kernel text), then the text,
// then a zero byte.
#include "tests/cuda_machine/cubin.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tcc::machine {
namespace {

constexpr char magic[] = "tcc emulated cubin 2";

/// The FNV-1a hash of the text, by which decodeCubin finds that an image is damaged.
std::uint64_t checksum(const std::string &text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

} // namespace

std::vector<char> encodeCubin(const Cubin &cubin) {
  char header[128];
  int length =
      std::snprintf(header, sizeof header, "%s %d %s %zu %016llx\n", magic, cubin.version, cubin.architecture.c_str(),
                    cubin.text.size(), static_cast<unsigned long long>(checksum(cubin.text)));
  std::vector<char> bytes(header, header + length);
  bytes.insert(bytes.end(), cubin.text.begin(), cubin.text.end());
  bytes.push_back('\0');
  return bytes;
}

Cubin decodeCubin(const char *bytes) {
  char architecture[32];
  std::size_t size = 0;
  unsigned long long sum = 0;
  int version = 0, length = 0;
  if (std::strncmp(bytes, magic, sizeof magic - 1) != 0 ||
      std::sscanf(bytes + sizeof magic - 1, " %d %31s %zu %llx%n", &version, architecture, &size, &sum, &length) != 4)
    throw std::invalid_argument("the image does not begin as this machine's do");
  const char *text = bytes + sizeof magic - 1 + length + 1;
  Cubin cubin{architecture, std::string(text, strnlen(text, size)), version};
  if (cubin.text.size() != size || checksum(cubin.text) != sum)
    throw std::invalid_argument("the image is damaged");
  return cubin;
}

int architectureNumber(const std::string &architecture) {
  int number = 0, length = 0;
  for (const char *form : {"sm_%d%n", "compute_%d%n"})
    if (std::sscanf(architecture.c_str(), form, &number, &length) == 1) {
      std::string rest = architecture.substr(static_cast<std::size_t>(length));
      return rest.empty() || rest == "a" || rest == "f" ? number : 0;
    }
  return 0;
}

bool runsOn(const std::string &architecture, int capability) {
  int number = architectureNumber(architecture);
  if (architecture.back() == 'a')
    return number == capability;
  if (architecture.rfind("compute_", 0) == 0)
    return number <= capability;
  return number / 10 == capability / 10 && number <= capability;
}

bool isTaken(const Cubin &cubin, int driver) {
  return cubin.isPtx() ? cubin.version <= driver : cubin.version / 1000 <= driver / 1000;
}

} // namespace tcc::machine
