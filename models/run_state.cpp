#include "models/run_state.h"
#include "frontend/files.h"
#include "frontend/quotes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t byteLimit = 1 << 20;

/// A loss may be no number, which JSON has no word for.
Json number(double value) {
  return fmt::to_string(value);
}

double number(const Json &json) {
  return std::stod(json.get<std::string>());
}

} // namespace

void writeRunState(const std::string &path, const RunState &state) {
  Json json = {{"step", state.step},
               {"skipped", state.skipped},
               {"loss_first", number(state.lossFirst)},
               {"loss_last", number(state.lossLast)}};
  if (state.seconds)
    json["seconds"] = *state.seconds;
  json["identity"] = state.identity;
  json["settings"] = state.settings;
  AtomicFile file(path);
  file.write(json.dump(2) + "\n");
  file.commit();
}

RunState readRunState(const std::string &path) {
  const MappedFile file(path);
  if (file.size() > byteLimit)
    throw Error(fmt::format("{}: {} bytes, at most {} are expected", path, file.size(), byteLimit));
  try {
    const char *text = reinterpret_cast<const char *>(file.data());
    const Json json = Json::parse(text, text + file.size());
    RunState state;
    state.step = json.at("step");
    state.skipped = json.at("skipped");
    state.lossFirst = number(json.at("loss_first"));
    state.lossLast = number(json.at("loss_last"));
    if (json.contains("seconds"))
      state.seconds = json["seconds"].get<double>();
    json.at("identity").get_to(state.identity);
    json.at("settings").get_to(state.settings);
    if (state.step < 0)
      throw Error(fmt::format("{}: step {}, a number from 0 on is expected", path, state.step));
    return state;
  } catch (const Error &) {
    throw;
  } catch (const std::exception &) { // JSON's and the numbers' errors
    throw Error(fmt::format("{}: not the state of a run", path));
  }
}

void checkSameRun(const std::string &folder, const RunState &checkpoint, const RunState &mine,
                  const std::function<void(std::string_view)> &report) {
  const auto valueOf = [](const std::map<std::string, std::string> &map, const std::string &key) {
    const auto at = map.find(key);
    const char *unsaid = key == "--params" ? "f32" : "nothing";
    return at == map.end() ? std::string(unsaid) : at->second;
  };
  std::map<std::string, std::string> keys = checkpoint.identity;
  keys.insert(mine.identity.begin(), mine.identity.end());
  for (const auto &[key, unused] : keys)
    if (const std::string theirs = valueOf(checkpoint.identity, key), ours = valueOf(mine.identity, key);
        theirs != ours)
      throw Error(fmt::format("{}: the checkpoint's {} is {}, this run's is {}; a run goes on with its own", folder,
                              key, inQuotes(theirs), inQuotes(ours)));
  keys = checkpoint.settings;
  keys.insert(mine.settings.begin(), mine.settings.end());
  for (const auto &[key, unused] : keys)
    if (const std::string theirs = valueOf(checkpoint.settings, key), ours = valueOf(mine.settings, key);
        theirs != ours)
      report(fmt::format("note: {} is {} from here on, the checkpoint's run had {}", key, ours, theirs));
}

} // namespace tcc::models
