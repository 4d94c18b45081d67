#include "models/run_ranks.h"
#include "frontend/error.h"
#include "passes/zero_stages.h"
#include "runtime/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tcc::models {

namespace {

constexpr int64_t usualLanes = 8; ///< of several ranks

void orThrow(const runtime::Error &error) {
  if (error)
    throw Error(error.message());
}

std::string hostName() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// A number that the launcher gave, by one of these variables; `otherwise` where it gave none.
int64_t numberOfLauncher(std::initializer_list<const char *> variables, int64_t otherwise) {
  for (const char *variable : variables)
    if (const char *text = std::getenv(variable)) {
      int64_t number = -1;
      std::from_chars(text, text + std::strlen(text), number);
      if (number >= 0)
        return number;
    }
  return otherwise;
}

} // namespace

int64_t ranksHere(const RunRanks &ranks) {
  const int64_t said = numberOfLauncher(
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE", "LOCAL_WORLD_SIZE"}, 0);
  return said > 0 ? said : ranks.count();
}

/// The number of this rank among those of its host.
static int64_t rankHere(const RunRanks &ranks) {
  return numberOfLauncher({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"},
                          ranks.rank());
}

std::string RunRanks::describe(int64_t lanes) const {
  return count() > 1 ? fmt::format("{} ranks by {}, {} lanes", count(), ranks->engine(), lanes) : "";
}

std::vector<std::string> RunRanks::gatherText(const std::string &own) {
  if (count() == 1)
    return {own};
  runtime::Expected<std::vector<std::string>> texts = runtime::gatherTexts(*ranks, own);
  orThrow(texts.error());
  return std::move(*texts);
}

void RunRanks::requireEqual(const RankFacts &facts) {
  if (count() == 1)
    return;
  std::vector<RankFacts> known;
  const std::string host = hostName();
  std::vector<std::string> hosts = gatherText(host);
  for (const std::string &text :
       gatherText(nlohmann::json(facts).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)))
    known.push_back(nlohmann::json::parse(text).get<RankFacts>());
  for (size_t other = 1; other < known.size(); ++other)
    for (const auto &[name, value] : known[0])
      if (const auto found = known[other].find(name); found != known[other].end() && found->second != value)
        throw CommonError(
            fmt::format("rank {} on {} differs from rank 0 on {} in its {}: {}, not {}; all ranks of a run have "
                        "the same",
                        other, hosts[other], hosts[0], name, found->second, value));
}

RunRanks::Moment RunRanks::agree(const Moment &own) {
  if (count() == 1)
    return own;
  std::vector<Moment> all(static_cast<size_t>(count()));
  orThrow(runtime::gatherAll(*ranks, &own, all.data(), sizeof own));
  Moment agreed = all[0];
  for (const Moment &moment : all)
    if (agreed.signal == 0)
      agreed.signal = moment.signal;
  return agreed;
}

std::vector<std::vector<double>> RunRanks::gather(std::span<const double> own) {
  std::vector<double> together(own.size() * size_t(count()));
  if (count() == 1)
    std::ranges::copy(own, together.begin());
  else
    orThrow(runtime::gatherAll(*ranks, own.data(), together.data(), int64_t(own.size_bytes())));
  std::vector<std::vector<double>> byRank;
  for (size_t rank = 0; rank < size_t(count()); ++rank)
    byRank.emplace_back(together.begin() + std::ptrdiff_t(rank * own.size()),
                        together.begin() + std::ptrdiff_t((rank + 1) * own.size()));
  return byRank;
}

void RunRanks::share(void *data, int64_t bytes) {
  if (count() == 1 || bytes == 0)
    return;
  const runtime::Expected<runtime::RankWork> work = ranks->broadcast(data, bytes, 0);
  orThrow(work ? ranks->wait(*work) : work.error());
}

std::string RunRanks::share(const std::string &text) {
  auto length = int64_t(text.size());
  share(&length, sizeof length);
  std::string shared = text;
  shared.resize(size_t(length));
  share(shared.data(), length);
  return shared;
}

namespace {

/// Decides how many lanes there are, and refuses what cannot be shared out by `ranks` of them.
void chooseLanes(TrainOptions &options, int64_t ranks) {
  if (!options.lanes)
    options.lanes = ranks > 1 ? usualLanes : 1;
  const int64_t lanes = *options.lanes;
  if (const std::string why = lanesRefusal(options.zero, lanes, ranks); !why.empty())
    throw usageError(why + " (--lanes)");
  if (lanes > 1 && options.largestBatch)
    throw usageError("--batch=auto cannot be given with several lanes, which share a batch out");
  if (options.batch % lanes)
    throw usageError(
        fmt::format("--batch={0} has no {1} equal parts, one for each lane: a multiple of {1} is expected, or --lanes",
                    options.batch, lanes));
  if (lanes > 1 && options.products == runtime::DType::f16)
    throw usageError("--dtype=f16 has no lanes: its loss is scaled in the step as a whole; bf16 has");
  if (ranks == 1)
    return;
  if (options.checkDevice || !options.stepFile.empty())
    throw usageError("--check-device and --step are of one rank");
  if (options.device == "auto")
    options.device = "cpu"; // a run on GPUs is asked for, since each rank needs one of its own
}

class PlannedRanks final : public runtime::Ranks {
public:
  PlannedRanks(int64_t count, int64_t rank) : all(count), own(rank) {}
  int64_t rank() const override { return own; }
  int64_t count() const override { return all; }
  std::string engine() const override { return "a plan"; }
  using Work = runtime::Expected<runtime::RankWork>;
  Work allToAll(const void *, std::span<const int64_t>, void *, std::span<const int64_t>) override { return none(); }
  Work allGather(const void *, void *, int64_t) override { return none(); }
  Work allReduce(float *, int64_t) override { return none(); }
  Work broadcast(void *, int64_t, int64_t) override { return none(); }
  Work barrier() override { return none(); }
  runtime::Error wait(runtime::RankWork) override { return none(); }
  runtime::Expected<bool> isOver(runtime::RankWork) override { return none(); }
  void abort(int status) override { std::_Exit(status); }
  void finish() override {}

private:
  static runtime::Error none() { return runtime::Error("ranks that are only planned exchange nothing"); }
  int64_t all, own;
};

} // namespace

std::shared_ptr<runtime::Ranks> plannedRanks(int64_t count, int64_t rank) {
  return count > 1 ? std::make_shared<PlannedRanks>(count, rank) : nullptr;
}

TrainOptions plannedOptions(const TrainOptions &given) {
  TrainOptions options = given;
  chooseLanes(options, std::max<int64_t>(options.ranks, 1));
  return options;
}

TrainOptions optionsOfRank(const TrainOptions &given, const RunRanks &ranks) {
  TrainOptions options = given;
  if (options.ranks > 0 && options.ranks != ranks.count())
    throw Error(fmt::format("--ranks={}, but the launcher has started {} ranks", options.ranks, ranks.count()));
  chooseLanes(options, ranks.count());
  if (ranks.count() == 1)
    return options;
  if (options.device != "cpu" && options.device.find(':') == std::string::npos)
    options.device += fmt::format(":{}", rankHere(ranks));
  if (options.threads == 0)
    options.threads = int(std::max<int64_t>(1, runtime::availableThreads() / ranksHere(ranks)));
  if (ranks.isFirst())
    return options;
  options.quiet = true;
  for (std::string *written :
       {&options.emitGraph, &options.jsonFile, &options.csvFile, &options.tensorBoardFolder, &options.wandbFolder,
        &options.reportFolder, &options.profileFile, &options.plotFile, &options.dumpGrads, &options.saveFolder})
    written->clear();
  options.sampleTokens = 0;
  return options;
}

} // namespace tcc::models
