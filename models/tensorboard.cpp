#include "models/tensorboard.h"
#include "frontend/quotes.h"
#include "models/wire_format.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace tcc::models {

namespace {

std::string eventHead(double wallTime, int64_t step) {
  std::string event; // Event: wall_time = 1, step = 2
  wire::addKey(event, 1, wire::Bytes8);
  wire::addRaw(event, wallTime);
  wire::addKey(event, 2, wire::Varint);
  wire::addVarint(event, uint64_t(step));
  return event;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  return wire::crc32<wire::castagnoli>(bytes);
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
  file = LogFile(path, "we", fmt::format("{}: cannot write the scalars", path));
  std::string event = eventHead(now, 0);
  wire::addText(event, 3, "brain.Event:2"); // file_version
  record(event);
  file.requireComplete();
}

void TensorBoardLog::scalars(int64_t step, double wallTime, const std::vector<std::pair<std::string, double>> &values) {
  std::string summary; // Summary: value = 1 { tag = 1, simple_value = 2 }
  for (const auto &[tag, number] : values) {
    std::string value;
    wire::addText(value, 1, tag);
    wire::addKey(value, 2, wire::Bytes4);
    wire::addRaw(value, float(number));
    wire::addText(summary, 1, value);
  }
  std::string event = eventHead(wallTime, step);
  wire::addText(event, 5, summary);
  record(event);
}

void TensorBoardLog::record(const std::string &event) {
  std::string out; // TFRecord: length, its checksum, the bytes, their checksum
  wire::addRaw(out, uint64_t(event.size()));
  wire::addRaw(out, masked(std::string_view(out).substr(0, 8)));
  out += event;
  wire::addRaw(out, masked(event));
  file.write(out);
}

} // namespace tcc::models
