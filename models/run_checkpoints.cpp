#include "models/run_checkpoints.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "runtime/dtype.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace tcc::models {

namespace {

constexpr const char *optimizerName = "optimizer.safetensors", *stateName = "run.json";

TensorDtype dtypeOf(const State &state) {
  return state.dtype() == DType::bf16 ? TensorDtype::BF16 : TensorDtype::F32;
}

struct ReadOptions {
  bool mayLack = false; ///< the file may have fewer
  bool inF32 = false;   ///< whatever the states' element type is: so are weights
};

void readStates(const std::string &path, const std::vector<State> &states, ReadOptions options = {}) {
  const SafetensorsFile file(path);
  for (const State &state : states) {
    const TensorEntry *entry = file.find(state.name());
    if (!entry && options.mayLack)
      continue;
    const TensorDtype stored = options.inF32 ? TensorDtype::F32 : dtypeOf(state);
    const std::vector<int64_t> shape(state.shape().begin(), state.shape().end());
    if (!entry || entry->shape != shape || entry->dtype != stored)
      throw Error(fmt::format("{}: tensor {} is not there as {} [{}], which this run has", path, inQuotes(state.name()),
                              dtypeName(stored), fmt::join(shape, ", ")));
    if (stored != dtypeOf(state)) { // exactly: the values were widened
      std::vector<float> values(size_t(state.shape().elements()));
      file.readFloats(*entry, values);
      std::ranges::transform(values, state.data<uint16_t>().begin(), runtime::floatToBf16);
      continue;
    }
    const std::span<const std::byte> bytes = file.bytes(*entry);
    std::memcpy(state.raw(), bytes.data(), bytes.size());
  }
}

void writeStates(const std::string &path, const std::vector<State> &states) {
  std::vector<TensorToWrite> tensors;
  for (const State &state : states)
    tensors.push_back({state.name(),
                       dtypeOf(state),
                       {state.shape().begin(), state.shape().end()},
                       {static_cast<const std::byte *>(state.rawForReading()), size_t(state.bytes())}});
  writeSafetensors(path, tensors);
}

} // namespace

RunCheckpoints::RunCheckpoints(const std::string &folder, int64_t keep, bool resume, RunState start,
                               const Report &report)
    : store(folder, keep), current(std::move(start)) {
  const std::vector<int64_t> steps = store.steps();
  if (!resume) {
    if (!steps.empty())
      throw Error(fmt::format("{}: there are checkpoints up to step {}; --resume goes on from them, a new run needs "
                              "an empty folder",
                              folder, steps.back()));
    return;
  }
  if (steps.empty())
    throw Error(fmt::format("{}: there is no checkpoint to resume from", folder));
  const std::optional<int64_t> step = store.newestIntact([&](std::string_view what) { damage.emplace_back(what); });
  if (!step)
    throw Error(fmt::format("{}: no checkpoint of {} is intact ({})", folder, steps.size(), damage.back()));
  const std::string path = store.path(*step);
  const RunState saved = readRunState(inFolder(path, stateName));
  checkSameRun(path, saved, current, report);
  if (saved.step != *step)
    throw Error(fmt::format("{}: {} is of step {}", path, stateName, saved.step));
  const std::map<std::string, std::string> identity = current.identity, settings = current.settings;
  current = saved;
  current.identity = identity;
  current.settings = settings;
}

void RunCheckpoints::load(Model &model, const std::vector<State> &optimizer, const std::vector<State> &scaling) const {
  const std::string folder = store.path(current.step);
  if (model.adapter()) {
    const AdapterFolder adapter(folder, model.config());
    if (adapter.config() != *model.adapter())
      throw Error(fmt::format("{}: the adapter is of {}, this run's of {}", folder, adapter.config().describe(),
                              model.adapter()->describe()));
    model.load(adapter);
  } else {
    readStates(inFolder(folder, "model.safetensors"), model.parameters(), {.inF32 = true});
  }
  readStates(inFolder(folder, optimizerName), optimizer);
  readStates(inFolder(folder, optimizerName), scaling, {.mayLack = true});
}

void RunCheckpoints::write(const RunState &state, const Model &model, const std::vector<State> &optimizer,
                           const std::string &configText, const std::string &base, const TokenizerFiles &tokenizer) {
  store.write(state.step, [&](const std::string &folder) {
    if (model.adapter()) {
      writeAdapterFolder(folder, model.config(), *model.adapter(), model.named(), base, configText);
      writeTokenizerFiles(folder, tokenizer);
    } else {
      writeModelFolder(folder, model.config(), model.named(), configText, tokenizer);
    }
    writeStates(inFolder(folder, optimizerName), optimizer);
    writeRunState(inFolder(folder, stateName), state);
  });
}

} // namespace tcc::models
