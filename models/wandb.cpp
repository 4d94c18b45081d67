#include "models/wandb.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/wire_format.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tcc::models {

namespace {

// The fields of Record, and of what it holds (wandb_internal.proto).
namespace recordField {
constexpr uint64_t number = 1, history = 2, summary = 3, run = 17, exit = 18, header = 21, info = 200;
}
constexpr uint64_t runId = 1, runProject = 3, runConfig = 4, runName = 8, runHost = 13, runStarted = 17;
constexpr uint64_t itemKey = 1, itemNestedKey = 2, itemJson = 16, historyStep = 2;
constexpr std::string_view project = "tcc", oldestReader = "0.40.0"; // of wandb, as its own writers say

// A file is blocks of 32 KiB. A record lies in one of them, or in parts at the end of one and the start of the next.
constexpr int64_t blockBytes = 32768, partHead = 7;
constexpr std::string_view fileHead(":W&B\xe1\xbe\0", 7); // and a magic number, and version 0
enum Part : char { whole = 1, first = 2, middle = 3, last = 4 };

uint32_t partSum(Part part, std::string_view bytes) {
  return wire::crc32<wire::ieee>(char(part) + std::string(bytes));
}

/// `seconds` since 1970 as a Timestamp.
std::string timestamp(double seconds) {
  std::string message;
  wire::addNumber(message, 1, uint64_t(seconds));
  wire::addNumber(message, 2, uint64_t((seconds - double(uint64_t(seconds))) * 1e9));
  return message;
}

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The values as items of a history, a summary or a configuration, which all have such.
std::string itemsOf(const WandbValues &values, uint64_t key) {
  std::string message;
  for (const auto &[name, json] : values) {
    std::string item;
    wire::addText(item, key, name);
    wire::addText(item, itemJson, json);
    wire::addText(message, 1, item);
  }
  return message;
}

/// Eight letters and digits that no other run has.
std::string newId() {
  constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuvwxyz";
  const auto ticks = std::chrono::system_clock::now().time_since_epoch().count();
  uint64_t bits = (uint64_t(ticks) ^ uint64_t(::getpid()) << 40) * 0x9e3779b97f4a7c15;
  bits ^= bits >> 29;
  std::string id;
  for (int i = 0; i < 8; ++i, bits /= digits.size())
    id += digits[bits % digits.size()];
  return id;
}

/// The step of a history record; -1 of any other one.
int64_t stepOfRecord(std::string_view record) {
  for (wire::Reader fields(record); fields.next();)
    if (fields.field == recordField::history) {
      for (wire::Reader inner(fields.text); inner.next();)
        if (inner.field == historyStep) {
          wire::Reader number(inner.text);
          return number.next() ? int64_t(number.number) : 0;
        }
      return 0;
    }
  return -1;
}

bool isExitRecord(std::string_view record) {
  for (wire::Reader fields(record); fields.next();)
    if (fields.field == recordField::exit)
      return true;
  return false;
}

} // namespace

std::vector<WandbRecord> wandbRecords(std::string_view file) {
  std::vector<WandbRecord> records;
  if (!file.starts_with(fileHead))
    return records;
  const auto size = int64_t(file.size());
  std::string parts; // of a record that is not whole yet
  bool isOpen = false;
  for (int64_t at = partHead; at < size;) {
    const int64_t left = blockBytes - at % blockBytes;
    if (left < partHead) { // too little for another part
      at += left;
      continue;
    }
    if (at + partHead > size)
      break;
    uint32_t sum = 0;
    uint16_t length = 0;
    std::memcpy(&sum, file.data() + at, 4);
    std::memcpy(&length, file.data() + at + 4, 2);
    const auto part = Part(file[size_t(at + 6)]);
    if (at + partHead + length > size || part < whole || part > last)
      break;
    const std::string_view bytes = file.substr(size_t(at + partHead), length);
    const bool begins = part == whole || part == first;
    if (partSum(part, bytes) != sum || begins == isOpen)
      break;
    at += partHead + length;
    parts += bytes;
    isOpen = part == first || part == middle;
    if (!isOpen)
      records.push_back({std::exchange(parts, {}), at});
  }
  return records;
}

WandbRun::WandbRun(const Start &start) {
  std::error_code problem;
  std::filesystem::create_directories(start.folder, problem);
  if (problem)
    throw Error(fmt::format("--wandb {}: cannot make the folder: {}", start.folder, problem.message()));
  isContinued = start.firstStep > 0 && findNewest(start);
  if (!isContinued)
    begin(start);
}

void WandbRun::open(const char *mode) {
  file = LogFile(path, mode, fmt::format("--wandb: {}: cannot write the run", path));
}

/// A new run.
void WandbRun::begin(const Start &start) {
  const double started = secondsNow();
  const auto time = std::time_t(started);
  id = newId();
  folder =
      (std::filesystem::path(start.folder) / fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", fmt::localtime(time), id))
          .string();
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(folder) / "files", problem);
  if (!problem)
    std::filesystem::create_directories(std::filesystem::path(folder) / "logs", problem);
  if (problem)
    throw Error(fmt::format("--wandb: {}: cannot make the folder: {}", folder, problem.message()));
  path = (std::filesystem::path(folder) / fmt::format("run-{}.wandb", id)).string();
  open("wbxe");
  file.write(fileHead);
  offset = int64_t(fileHead.size());

  std::string version, head;
  wire::addText(version, 1, "tcc " TCC_VERSION);
  wire::addText(version, 2, oldestReader);
  wire::addText(head, 1, version);
  record(recordField::header, head);

  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string message;
  wire::addText(message, runId, id);
  wire::addText(message, runProject, project);
  wire::addText(message, runConfig, itemsOf(start.config, itemKey));
  wire::addText(message, runName, start.name);
  wire::addText(message, runHost, host);
  wire::addText(message, runStarted, timestamp(started));
  record(recordField::run, message);
  file.requireComplete();
}

/// The newest run of the folder, cut to the steps that were before; false where there is none.
bool WandbRun::findNewest(const Start &start) {
  std::vector<std::string> runs;
  std::error_code problem;
  for (const auto &entry : std::filesystem::directory_iterator(start.folder, problem))
    if (const std::string name = entry.path().filename(); name.starts_with("offline-run-") && name.rfind('-') > 11)
      runs.push_back(name);
  if (runs.empty())
    return false;
  const std::string newest = *std::ranges::max_element(runs); // by its time
  id = newest.substr(newest.rfind('-') + 1);
  folder = (std::filesystem::path(start.folder) / newest).string();
  path = (std::filesystem::path(folder) / fmt::format("run-{}.wandb", id)).string();
  offset = 0;
  {
    const MappedFile old(path);
    const std::vector<WandbRecord> all = wandbRecords(old.text());
    if (all.size() < 2)
      throw Error(
          fmt::format("--wandb: {}: no run of Weights & Biases is in the file, which this one would go on in", path));
    for (const WandbRecord &one : all) {
      if (isExitRecord(one.bytes) || stepOfRecord(one.bytes) >= start.firstStep)
        break;
      offset = one.end;
      ++records;
    }
  }
  open("rb+e");
  file.cut(offset);
  std::filesystem::remove(path + ".synced", problem); // what was uploaded is not the whole run
  return true;
}

void WandbRun::step(int64_t step, double runtime, WandbValues values) {
  values.insert(values.end(), {{"_step", fmt::to_string(step)},
                               {"_runtime", fmt::to_string(runtime)},
                               {"_timestamp", fmt::format("{:.6f}", secondsNow())}});
  std::string place, message = itemsOf(values, itemNestedKey);
  wire::addNumber(place, 1, uint64_t(step));
  wire::addText(message, historyStep, place);
  record(recordField::history, message);
  record(recordField::summary, itemsOf(values, itemNestedKey));
}

void WandbRun::finish(int exitCode, double runtime, const WandbValues &values) {
  record(recordField::summary, itemsOf(values, itemNestedKey));
  std::string message;
  wire::addNumber(message, 1, uint64_t(exitCode));
  wire::addNumber(message, 2, uint64_t(runtime));
  record(recordField::exit, message);
}

/// A record that holds `message`.
void WandbRun::record(uint64_t kind, std::string_view message) {
  std::string bytes, stream;
  wire::addNumber(bytes, recordField::number, uint64_t(++records));
  wire::addText(bytes, kind, message);
  wire::addText(stream, 1, id);
  wire::addText(bytes, recordField::info, stream);
  write(bytes);
}

void WandbRun::write(std::string_view record) {
  std::string out;
  const auto at = [&] { return (offset + int64_t(out.size())) % blockBytes; };
  if (blockBytes - at() < partHead)
    out.append(size_t(blockBytes - at()), '\0');
  bool isFirst = true, isLast = false;
  while (!isLast) {
    const auto room = size_t(blockBytes - at() - partHead);
    const std::string_view bytes = record.substr(0, room);
    record.remove_prefix(bytes.size());
    isLast = record.empty();
    const Part part = isFirst ? (isLast ? whole : first) : (isLast ? last : middle);
    wire::addRaw(out, partSum(part, bytes));
    wire::addRaw(out, uint16_t(bytes.size()));
    out += char(part);
    out += bytes;
    isFirst = false;
  }
  offset += int64_t(out.size());
  file.write(out);
}

} // namespace tcc::models
