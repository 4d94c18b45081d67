#include "models/run_files.h"
#include "frontend/quotes.h"
#include "models/adapter.h"
#include "models/checkpoint_store.h"
#include "runtime/files.h"

#include <filesystem>
#include <fmt/format.h>

namespace tcc::models {

namespace {

void checkWritable(std::string_view flag, const std::string &path) {
  if (runtime::Error problem = runtime::checkWritable(path))
    throw Error(fmt::format("{}: {}", flag, problem.message()));
}

} // namespace

void checkRunFiles(const TrainOptions &options) {
  runtime::FileUses files;
  files.standardStreams(/*readsInput=*/false);

  // 1. What is read: the data, and whatever lies in the folder of the first weights.
  for (const std::string &path : options.dataFiles)
    files.reads(fmt::format("--data {}", path), path);
  if (!options.configFile.empty())
    files.reads(fmt::format("--config {}", options.configFile), options.configFile);
  if (!options.evalFile.empty())
    files.reads(fmt::format("--eval-data {}", options.evalFile), options.evalFile);
  for (const auto &[flag, folder] :
       {std::pair("--init", options.initFolder), std::pair("--adapter", options.adapterFolder)}) {
    if (folder.empty())
      continue;
    std::error_code problem; // a folder that cannot be read is an error of its own, later
    for (const auto &entry : std::filesystem::directory_iterator(folder, problem))
      files.reads(fmt::format("{} of {}", entry.path().string(), flag), entry.path().string());
  }

  // 2. What is written.
  if (options.jsonFile != "-" && !options.jsonFile.empty())
    files.writes(fmt::format("--json {}", options.jsonFile), options.jsonFile);
  if (!options.csvFile.empty())
    files.writes(fmt::format("--csv {}", options.csvFile), options.csvFile);
  if (!options.emitGraph.empty())
    files.writes(fmt::format("--emit-graph {}", options.emitGraph), options.emitGraph);
  if (!options.stepFile.empty())
    files.reads(fmt::format("--step {}", options.stepFile), options.stepFile);
  if (!options.tuning.empty())
    files.writes(fmt::format("--tuning={}", options.tuning), options.tuning);
  if (!options.dumpGrads.empty())
    files.writes(fmt::format("--dump-grads {}", options.dumpGrads), options.dumpGrads);
  if (!options.saveFolder.empty()) {
    files.writes(fmt::format("--save {}", options.saveFolder), options.saveFolder);
    std::vector<std::string> paths = modelFolderFiles(options.saveFolder);
    if (options.adapts()) {
      paths = adapterFolderFiles(options.saveFolder);
      const std::vector<std::string> beside = tokenizerFilePaths(options.saveFolder);
      paths.insert(paths.end(), beside.begin(), beside.end());
    }
    for (const std::string &path : paths)
      files.writes(fmt::format("{} of --save", path), path);
  }
  if (!options.remarksFile.empty())
    files.writes(fmt::format("-foptimization-record-file={}", options.remarksFile), options.remarksFile);
  if (!options.plotFile.empty())
    files.writes(fmt::format("--plot {}", options.plotFile), options.plotFile);
  if (!options.reportFolder.empty())
    files.writes(fmt::format("--report={}", options.reportFolder), options.reportFolder + "/index.html");
  if (!options.profileFile.empty())
    files.writes(fmt::format("--profile {}", options.profileFile), options.profileFile);
  if (!options.dumpTokens.empty())
    files.writes(fmt::format("--dump-tokens {}", options.dumpTokens), options.dumpTokens);
  if (!options.checkpointFolder.empty())
    files.writes(fmt::format("--checkpoint {}", options.checkpointFolder), options.checkpointFolder);
  if (runtime::Error error = files.check())
    throw Error(error.message());

  // 3. What only shows after the data is read, or when the work is done.
  std::error_code missing;
  if (!options.stepFile.empty() && !std::filesystem::exists(options.stepFile, missing))
    throw Error(
        fmt::format("--step {}: there is no such file; train_gpt --compile-only=FILE.so writes one", options.stepFile));
  if (!options.tokenizerFolder.empty() && options.trainVocabulary == 0 &&
      !std::filesystem::is_directory(options.tokenizerFolder, missing))
    throw Error(fmt::format("--tokenizer {}: there is no such folder; one with tokenizer.json, or with vocab.json and "
                            "merges.txt, is expected",
                            options.tokenizerFolder));
  for (const auto &[flag, path] :
       {std::pair("--emit-graph", options.emitGraph), std::pair("--dump-grads", options.dumpGrads),
        std::pair("-foptimization-record-file", options.remarksFile), std::pair("--plot", options.plotFile),
        std::pair("--profile", options.profileFile), std::pair("--dump-tokens", options.dumpTokens),
        std::pair("--tuning", options.tuning)})
    checkWritable(flag, path);
  if (!options.reportFolder.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.reportFolder, problem);
    if (problem)
      throw Error(fmt::format("--report={}: cannot make the folder: {}", options.reportFolder, problem.message()));
    checkWritable("--report", options.reportFolder + "/index.html");
  }
  if (options.resume && checkpointSteps(options.checkpointFolder).empty())
    throw Error(fmt::format("{}: there is no checkpoint to resume from", options.checkpointFolder));
}

void checkExportFiles(const TrainOptions &options) {
  runtime::FileUses files;
  files.standardStreams(/*readsInput=*/false);
  files.writes(fmt::format("--compile-only {}", options.compileOnly), options.compileOnly);
  const std::string header = std::filesystem::path(options.compileOnly).replace_extension(".h");
  files.writes(fmt::format("{}, the header of --compile-only", header), header);
  if (!options.initialStates.empty())
    files.writes(fmt::format("--initial-states {}", options.initialStates), options.initialStates);
  if (runtime::Error error = files.check())
    throw Error(error.message());
}

} // namespace tcc::models
