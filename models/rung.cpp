#include "models/rung.h"
#include "models/checksum.h"
#include "models/estimator.h"
#include "models/json_file.h"
#include "models/options_file.h"
#include "models/run_device.h"
#include "models/run_setup.h"
#include "models/start_folders.h"
#include "models/trainer.h"
#include "runtime/plan.h"
#include "runtime/step_bound.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

namespace tcc::models {

namespace {

/// A folder for the logs of runs, gone with this object.
class LogFolder {
public:
  LogFolder() : path(std::filesystem::temp_directory_path() / fmt::format("tcc-rung-{}", ::getpid())) {
    std::filesystem::create_directories(path);
  }
  LogFolder(const LogFolder &) = delete;
  LogFolder &operator=(const LogFolder &) = delete;
  ~LogFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string file() const { return (path / "log.jsonl").string(); }

private:
  const std::filesystem::path path;
};

/// The last line of a run's log.
runtime::Json summaryIn(const std::string &path) {
  std::ifstream in(path);
  runtime::Json last;
  for (std::string line; std::getline(in, line);)
    last = parseLogLine(line);
  if (!last.is_object() || !last.contains("step_ms_median"))
    throw Error(fmt::format("{}: the run's log has no last line", path));
  return last;
}

} // namespace

TrainOptions optionsOf(const Rung &rung, const std::vector<std::string> &arguments) {
  std::vector<std::string> all{"--steps=12"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.insert(all.end(), rung.options.begin(), rung.options.end());
  const ParsedOptions parsed = parseTrainOptions(all, deviceKinds(), readOptionsFile);
  if (!parsed.options)
    throw Error(fmt::format("rung '{}': {}", rung.name, parsed.message));
  TrainOptions options = *parsed.options;
  options.ladder = options.ablate = options.estimate = false;
  options.quiet = true;
  options.plotFile.clear();
  options.jsonFile.clear();
  return options;
}

RungResult plan(const Rung &rung, const std::vector<std::string> &arguments) {
  TrainOptions options = withoutData(optionsOf(rung, arguments));
  findStartFolders(options);
  const RunDevice device = chooseDevice(options.device, options.tuning);
  chooseProducts(options, device, /*warns=*/false);
  const std::optional<ModelFolder> folder = openModelFolder(options);
  Estimator estimator(options, device, folder);
  const runtime::Plan step = estimator.plan(options.batch);
  const std::string text = planToJson(step);
  const runtime::StepBound least = runtime::leastBound(step, estimator.limits);
  RungResult result{.rung = rung,
                    .plan = checksumOf(std::as_bytes(std::span(text))),
                    .plannedBytes = step.plannedBytes(),
                    .stepMs = least.total() * 1e3,
                    .prefetches = options.prefetches,
                    .captures = options.capturesSteps,
                    .machineShare = {}};
  // As a compilation counts them: attention has kernels of its own.
  for (const runtime::Instruction &instruction : step.instructions)
    if (const runtime::StepPart part = partOf(instruction); part == runtime::StepPart::products)
      ++result.matmuls;
    else if (const auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
             call && part == runtime::StepPart::kernels)
      result.kernels += int64_t(call->segments.size());
    else if (std::holds_alternative<runtime::LaunchCall>(instruction.call) && part == runtime::StepPart::kernels)
      ++result.kernels;
  if (result.stepMs > 0)
    result.tokensPerSecond = double(options.batch * options.accumulate * estimator.sequence) / result.stepMs * 1e3;
  return result;
}

bool runTheSame(const RungResult &a, const RungResult &b) {
  return a.plan == b.plan && a.prefetches == b.prefetches && a.captures == b.captures;
}

RungResult measure(const Rung &rung, const std::vector<std::string> &arguments, int rounds) {
  RungResult result;
  result.rung = rung;
  result.wasTrained = true;
  TrainOptions options = optionsOf(rung, arguments);
  result.prefetches = options.prefetches;
  result.captures = options.capturesSteps;
  const LogFolder logs;
  options.jsonFile = logs.file();
  double best = 0, other = 0;
  for (int round = 0; round < rounds; ++round) {
    std::FILE *nowhere = std::fopen("/dev/null", "w");
    const int status = train(options, nowhere);
    std::fclose(nowhere);
    if (status != 0)
      throw Error(fmt::format("rung '{}' ended with status {}", rung.name, status));
    const runtime::Json line = summaryIn(options.jsonFile);
    const double tokens = double(options.batch * options.accumulate) * line["seq"].get<double>();
    const double rate = tokens / line["step_ms_median"].get<double>() * 1e3;
    other = round == 0 ? rate : std::min(other, rate);
    if (rate > best) {
      best = rate;
      result.stepMs = line["step_ms_median"];
      if (line["mfu"].is_number())
        result.machineShare = line["mfu"].get<double>();
    }
    result.kernels = line["kernels"];
    result.matmuls = line["matmuls"];
    result.plannedBytes = line["planned_bytes"];
    result.countedBytes = line["peak_bytes"];
    result.lastLoss = line["loss_last"];
  }
  result.tokensPerSecond = best;
  result.spread = 1 - other / best;
  return result;
}

std::string jsonOf(const RungResult &result) {
  nlohmann::ordered_json json = {{"rung", result.rung.name},
                                 {"options", result.rung.options},
                                 {"kernels", result.kernels},
                                 {"matmuls", result.matmuls},
                                 {"planned_bytes", result.plannedBytes}};
  if (result.wasTrained) {
    json["tokens_per_second"] = result.tokensPerSecond;
    json["spread"] = result.spread;
    json["peak_bytes"] = result.countedBytes;
    json["loss_last"] = result.lastLoss;
  } else if (result.stepMs > 0) {
    json["least_ms"] = result.stepMs;
    json["tokens_per_second_at_most"] = result.tokensPerSecond;
  }
  json["plan"] = result.plan;
  json["prefetches"] = result.prefetches;
  json["cuda_graph"] = result.captures;
  if (result.machineShare)
    json["mfu"] = *result.machineShare;
  return json.dump() + "\n";
}

void writeText(const std::string &path, const std::string &text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

} // namespace tcc::models
