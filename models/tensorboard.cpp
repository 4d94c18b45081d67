#include "models/tensorboard.h"
#include "frontend/quotes.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace tcc::models {

namespace {

// Protocol buffers' wire format: a key (field · 8 + kind), then a varint, 8 bytes, a length and bytes, or 4 bytes.
enum Kind { Varint = 0, Bytes8 = 1, Length = 2, Bytes4 = 5 };

void addVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
}

void addKey(std::string &out, uint64_t field, Kind kind) {
  addVarint(out, field << 3 | kind);
}

template <typename T>
void addRaw(std::string &out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T)); // little-endian, as the whole project assumes
  out.append(bytes, sizeof(T));
}

void addText(std::string &out, uint64_t field, std::string_view text) {
  addKey(out, field, Length);
  addVarint(out, text.size());
  out += text;
}

std::string eventHead(double wallTime, int64_t step) {
  std::string event; // Event: wall_time = 1, step = 2
  addKey(event, 1, Bytes8);
  addRaw(event, wallTime);
  addKey(event, 2, Varint);
  addVarint(event, uint64_t(step));
  return event;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ uint8_t(byte)) & 0xff];
  return ~crc;
}

TensorBoardLog::TensorBoardLog(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  using namespace std::chrono;
  const double now = duration<double>(system_clock::now().time_since_epoch()).count();
  const std::string name = fmt::format("events.out.tfevents.{:.0f}.tcc.{}", now, ::getpid());
  const std::string path = (std::filesystem::path(folder) / name).string();
  file = std::fopen(path.c_str(), "we");
  if (!file)
    throw Error(fmt::format("{}: cannot write the scalars: {}", path, std::strerror(errno)));
  std::string event = eventHead(now, 0);
  addText(event, 3, "brain.Event:2"); // file_version
  record(event);
}

TensorBoardLog::~TensorBoardLog() {
  std::fclose(file);
}

void TensorBoardLog::scalars(int64_t step, double wallTime, const std::vector<std::pair<std::string, double>> &values) {
  std::string summary; // Summary: value = 1 { tag = 1, simple_value = 2 }
  for (const auto &[tag, number] : values) {
    std::string value;
    addText(value, 1, tag);
    addKey(value, 2, Bytes4);
    addRaw(value, float(number));
    addText(summary, 1, value);
  }
  std::string event = eventHead(wallTime, step);
  addText(event, 5, summary);
  record(event);
}

void TensorBoardLog::record(const std::string &event) {
  if (broken)
    return;
  std::string out; // TFRecord: length, its checksum, the bytes, their checksum
  addRaw(out, uint64_t(event.size()));
  addRaw(out, masked(std::string_view(out).substr(0, 8)));
  out += event;
  addRaw(out, masked(event));
  broken = std::fwrite(out.data(), 1, out.size(), file) != out.size() || std::fflush(file) != 0;
}

} // namespace tcc::models
