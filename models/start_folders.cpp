#include "models/start_folders.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checkpoint_store.h"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

namespace tcc::models {

namespace fs = std::filesystem;

namespace {

constexpr const char *modelFile = "config.json", *adapterFile = "adapter_config.json";

/// A folder's path without a slash at its end, whose name can be asked for.
fs::path wholePath(const std::string &folder) {
  std::error_code ignored;
  const fs::path path = fs::absolute(folder, ignored).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Refuses a checkpoint that holds the other kind of weights than the flag takes.
void checkKind(const std::string &flag, const std::string &folder) {
  const bool isOfAdapter = fileExists(inFolder(folder, adapterFile)) && !fileExists(inFolder(folder, modelFile));
  if (flag == "--init" && isOfAdapter)
    throw Error(
        fmt::format("--init {0}: the checkpoint holds an adapter, not the weights that it is for; --init FOLDER "
                    "with these weights and --adapter {0} start from it",
                    folder));
  if (flag == "--adapter" && !isOfAdapter)
    throw Error(
        fmt::format("--adapter {0}: the checkpoint holds no adapter; --init {0} starts from its weights", folder));
}

} // namespace

std::string startFolder(const std::string &flag, const std::string &folder,
                        const std::function<void(std::string_view)> &report) {
  const fs::path path = wholePath(folder);
  // 1. A checkpoint itself.
  const std::optional<int64_t> step = stepOfCheckpoint(path.filename().string());
  if (step && fileExists(inFolder(folder, checkpointManifest))) {
    const fs::path asGiven = fs::path(inFolder(folder, "")).lexically_normal().parent_path();
    const fs::path run = asGiven.has_parent_path() ? asGiven.parent_path() : fs::path(".");
    if (const std::string damage = checkpointDamage(folder, *step); !damage.empty())
      throw Error(
          fmt::format("{} {}: the checkpoint is damaged ({}); {} {} takes the newest one of its run that is intact",
                      flag, folder, damage, flag, run.string()));
    checkKind(flag, folder);
    return folder;
  }
  // 2. A folder with weights, or none at all: who reads it says what is missing.
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || fileExists(inFolder(folder, flag == "--init" ? modelFile : adapterFile)))
    return folder;
  // 3. A run.
  const std::vector<int64_t> steps = checkpointSteps(folder);
  if (steps.empty())
    throw Error(fmt::format("{} {}: the folder has neither {} nor checkpoints of a run (step-…)", flag, folder,
                            flag == "--init" ? modelFile : adapterFile));
  std::string lastDamage;
  const std::optional<int64_t> newest = newestIntactCheckpoint(folder, [&](std::string_view damage) {
    lastDamage = damage;
    report(damage);
  });
  if (!newest)
    throw Error(fmt::format("{} {}: no checkpoint of {} is intact ({})", flag, folder, steps.size(), lastDamage));
  std::string found = checkpointPath(folder, *newest);
  checkKind(flag, found);
  return found;
}

void findStartFolders(TrainOptions &options) {
  const auto warn = [](std::string_view text) { fmt::print(stderr, "warning: {}\n", text); };
  for (auto [flag, folder] :
       {std::pair("--init", &options.initFolder), std::pair("--adapter", &options.adapterFolder)}) {
    if (folder->empty())
      continue;
    std::string found = startFolder(flag, *folder, warn);
    if (found == *folder)
      continue;
    if (!options.quiet)
      fmt::print(stderr, "{} {}: its newest intact checkpoint is {}\n", flag, *folder, found);
    *folder = std::move(found);
    if (folder == &options.initFolder)
      options.model = nameOfFolder(options.initFolder);
  }
}

std::string nameOfFolder(const std::string &folder) {
  const fs::path path = wholePath(folder);
  const std::string name = path.filename().string(), run = path.parent_path().filename().string();
  if (name.empty())
    return folder;
  return name.starts_with("step-") && !run.empty() ? run + "/" + name : name;
}

} // namespace tcc::models
