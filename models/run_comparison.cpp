#include "models/run_comparison.h"
#include "frontend/quotes.h"
#include "frontend/safetensors.h"
#include "models/json_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::map<int64_t, Json> stepsOfLog(const std::string &path) {
  std::ifstream in(path);
  if (!in)
    throw Error(fmt::format("{}: cannot open the log", path));
  std::map<int64_t, Json> steps;
  for (std::string line; std::getline(in, line);) {
    Json json = parseLogLine(line);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
      continue;
    const auto step = json["step"].get<int64_t>();
    steps[step] = std::move(json);
  }
  if (steps.empty())
    throw Error(fmt::format("{}: no line of it is a step, a --json log is expected", path));
  return steps;
}

/// The first key of one step that differs; empty where none does.
std::string differenceOfSteps(const Json &a, const Json &b) {
  const Json none, &first = a.contains("parameters") ? a["parameters"] : none,
                   &second = b.contains("parameters") ? b["parameters"] : none;
  if (first.is_object() && second.is_object())
    for (const auto &[name, hash] : first.items())
      if (!second.contains(name) || second[name] != hash)
        return fmt::format("parameter {}", inQuotes(name));
  for (const char *key : {"loss", "norm", "val_loss"})
    if (a.contains(key) && b.contains(key) && a[key] != b[key])
      return fmt::format("{} ({} and {})", key, a[key].dump(), b[key].dump());
  return "";
}

std::map<int64_t, std::string> stepsOfFolder(const std::string &folder) {
  std::map<int64_t, std::string> steps;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string::npos &&
        name.size() < 24)
      steps[std::stoll(name.substr(5))] = entry.path().string();
  }
  if (steps.empty())
    throw Error(fmt::format("{}: there are no checkpoints", folder));
  return steps;
}

std::string differenceOfFiles(const std::string &a, const std::string &b, const char *name) {
  const SafetensorsFile first((fs::path(a) / name).string()), second((fs::path(b) / name).string());
  for (const TensorEntry &tensor : first.tensors()) {
    const TensorEntry *other = second.find(tensor.name);
    if (!other || other->shape != tensor.shape || other->dtype != tensor.dtype)
      return fmt::format("tensor {} is not in both with one shape and type", inQuotes(tensor.name));
    if (std::ranges::equal(first.bytes(tensor), second.bytes(*other)))
      continue;
    std::vector<float> x(size_t(tensor.elements())), y(x.size());
    first.readFloats(tensor, x);
    second.readFloats(*other, y);
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i)
      largest = std::max(largest, std::abs(double(x[i]) - double(y[i])));
    return fmt::format("tensor {}, by up to {:.3g}", inQuotes(tensor.name), largest);
  }
  return "";
}

template <typename Steps, typename Difference>
RunDifference firstDifference(const Steps &a, const Steps &b, Difference difference) {
  int64_t common = 0;
  for (const auto &[step, first] : a) {
    const auto second = b.find(step);
    if (second == b.end())
      continue;
    ++common;
    if (const std::string found = difference(first, second->second); !found.empty())
      return {true, fmt::format("step {}: {}", step, found)};
  }
  if (common == 0)
    throw Error("the two runs have no step in common");
  return {false, fmt::format("{} steps are equal", common)};
}

} // namespace

RunDifference compareRuns(const std::string &a, const std::string &b) {
  std::error_code ignored;
  const bool folders = fs::is_directory(a, ignored);
  if (folders != fs::is_directory(b, ignored))
    throw Error(fmt::format("{} and {}: two logs or two folders of checkpoints are expected", a, b));
  if (!folders)
    return firstDifference(stepsOfLog(a), stepsOfLog(b), differenceOfSteps);
  return firstDifference(stepsOfFolder(a), stepsOfFolder(b), [](const std::string &first, const std::string &second) {
    for (const char *name : {"model.safetensors", "optimizer.safetensors"})
      if (const std::string found = differenceOfFiles(first, second, name); !found.empty())
        return found;
    return std::string();
  });
}

} // namespace tcc::models
