#include "tests/cuda_machine/settings.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace tcc::machine {
namespace {

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty())
      parts.push_back(part);
  return parts;
}

std::uint64_t number(const std::string &digits, const std::string &where) {
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument("`" + where + "`: `" + digits + "` is not a number");
  return std::stoull(digits);
}

bool setWord(Settings &settings, const std::string &word) {
  using emulator::Async;
  using emulator::Order;
  const std::map<std::string, Streams> streams = {
      {"late", Streams::Late}, {"early", Streams::Early}, {"random", Streams::Random}};
  const std::map<std::string, Order> orders = {
      {"forward", Order::Forward}, {"reverse", Order::Reverse}, {"shuffled", Order::Random}};
  const std::map<std::string, Async> copies = {
      {"late-copies", Async::Late}, {"early-copies", Async::Early}, {"random-copies", Async::Random}};
  const std::map<std::string, bool> checks = {{"checked", true}, {"unchecked", false}};
  const std::map<std::string, bool> builds = {{"plain", true}};
  const std::map<std::string, bool> faults = {{"stale-maps", true}};
  const std::map<std::string, Model> models = {{"a100", Model::A100}, {"h200", Model::H200}};
  auto assign = [&](const auto &table, auto &target) {
    auto found = table.find(word);
    if (found == table.end())
      return false;
    target = found->second;
    return true;
  };
  return assign(builds, settings.plain) || assign(faults, settings.staleMaps) || assign(streams, settings.streams) ||
         assign(orders, settings.schedule.order) || assign(copies, settings.schedule.async) ||
         assign(checks, settings.schedule.checkAccesses) || assign(models, settings.model);
}

bool setValue(Settings &settings, const std::string &word) {
  std::size_t equals = word.find('=');
  if (equals == std::string::npos)
    return false;
  std::string name = word.substr(0, equals);
  std::uint64_t value = number(word.substr(equals + 1), word);
  if (name == "devices")
    settings.devices = static_cast<int>(value);
  else if (name == "memory")
    settings.memory = value;
  else if (name == "driver")
    settings.driver = static_cast<int>(value);
  else if (name == "nvrtc")
    settings.nvrtc = static_cast<int>(value);
  else if (name == "seed")
    settings.schedule.seed = value;
  else if (name == "lost-wait")
    settings.lostWait = value;
  else if (name == "noise")
    settings.schedule.approximationNoise = static_cast<int>(value);
  else
    return false;
  return true;
}

} // namespace

Settings parseSettings(const std::string &words) {
  Settings settings;
  for (const std::string &word : split(words, ','))
    if (!setWord(settings, word) && !setValue(settings, word))
      throw std::invalid_argument("TCC_CUDA_MACHINE: no setting is called `" + word + "`");
  if (settings.plain && settings.schedule.checkAccesses)
    throw std::invalid_argument("TCC_CUDA_MACHINE: `checked` needs the checks that `plain` leaves out");
  return settings;
}

Settings currentSettings() {
  const char *words = std::getenv("TCC_CUDA_MACHINE");
  return parseSettings(words ? words : "");
}

} // namespace tcc::machine
