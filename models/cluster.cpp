#include "models/cluster.h"
#include "models/json_file.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;

/// Keys of an object. Every error names the file and the key.
class Keys {
public:
  Keys(const std::string &file, std::string prefix, const Json &object)
      : file(file), prefix(std::move(prefix)), object(object) {
    if (!object.is_object())
      fail("", "an object is expected");
  }

  double number(const char *key, double least, double most) {
    const Json *value = take(key);
    if (!value)
      fail(key, "is missing");
    return checked(key, *value, least, most);
  }
  std::optional<double> numberIf(const char *key, double least, double most) {
    const Json *value = take(key);
    return value ? std::optional(checked(key, *value, least, most)) : std::nullopt;
  }
  std::string text(const char *key) {
    const Json *value = take(key);
    if (!value || !value->is_string())
      fail(key, value ? "is no text" : "is missing");
    return value->get<std::string>();
  }
  const Json &member(const char *key) {
    const Json *value = take(key);
    if (!value)
      fail(key, "is missing");
    return *value;
  }
  std::string path(const char *key) const { return prefix.empty() ? key : prefix + "." + key; }

  /// After all keys have been taken.
  void refuseOthers() const {
    for (const auto &[key, value] : object.items())
      if (std::ranges::find(known, key) == known.end())
        throw Error(fmt::format("{}: {} is no key of {}; {} are", file, inQuotes(key),
                                prefix.empty() ? "a cluster" : inQuotes(prefix), fmt::join(known, ", ")));
  }

private:
  const std::string &file;
  std::string prefix;
  const Json &object;
  std::vector<std::string> known;

  const Json *take(const char *key) {
    known.emplace_back(key);
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }
  double checked(const char *key, const Json &value, double least, double most) const {
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      fail(key, fmt::format("is {}; a number from {:g} to {:g} is expected", inQuotes(value.dump()), least, most));
    return value.get<double>();
  }
  [[noreturn]] void fail(const char *key, const std::string &problem) const {
    throw Error(fmt::format("{}: {}{}{}", file, *key ? inQuotes(path(key)) : inQuotes(prefix.empty() ? "{}" : prefix),
                            problem.starts_with("an ") ? ": " : " ", problem));
  }
};

Link readLink(const std::string &file, Keys &keys, const char *key) {
  constexpr double micro = 1e-6;
  Keys link(file, keys.path(key), keys.member(key));
  Link made;
  made.bytesPerSecond = link.number("gigabytes_per_second", 1e-6, 1e6) * 1e9;
  made.startSeconds = link.numberIf("start_us", 0, 1e9).value_or(0) * micro;
  made.hopSeconds = link.numberIf("hop_us", 0, 1e9).value_or(0) * micro;
  link.refuseOthers();
  return made;
}

} // namespace

Cluster readCluster(const std::string &path) {
  const MappedFile file(path);
  const Json json = parseJsonFile<Json>(file, {.bytes = 64 << 10, .kind = "a description of a cluster"});
  Keys keys(path, "", json);
  Cluster cluster;
  cluster.name = keys.text("name");
  const double perNode = keys.number("processors_per_node", 1, 4096);
  if (perNode != std::floor(perNode))
    throw Error(fmt::format("{}: `processors_per_node` is {:g}; a whole number is expected", path, perNode));
  cluster.perNode = int64_t(perNode);
  cluster.inside = readLink(path, keys, "inside");
  cluster.between = readLink(path, keys, "between");
  cluster.memoryBytes = keys.number("memory_gigabytes", 1e-3, 1e9) * 1e9;
  cluster.dollarsPerHour = keys.numberIf("dollars_per_hour", 0, 1e6).value_or(0);
  if (const std::optional<double> step = keys.numberIf("step_ms", 1e-6, 1e9))
    cluster.stepSeconds = *step / 1e3;
  cluster.spread = keys.numberIf("spread", 0, 10).value_or(0);
  cluster.failureHours = keys.numberIf("hours_between_failures", 1e-3, 1e12).value_or(0);
  cluster.restartSeconds = keys.numberIf("restart_minutes", 0, 1e6).value_or(0) * 60;
  keys.refuseOthers();
  return cluster;
}

double transferSeconds(const Cluster &cluster, const Exchanged &exchange, int64_t ranks) {
  if (ranks == 1)
    return 0;
  const int64_t near = std::min(cluster.perNode, ranks) - 1, far = ranks - 1 - near;
  const double part = exchange.bytes / double(ranks);
  const auto over = [&](const Link &link, int64_t others) {
    return double(others) * (link.hopSeconds + part / link.bytesPerSecond);
  };
  const double once = over(cluster.inside, near) + over(cluster.between, far);
  const double start = far > 0 ? cluster.between.startSeconds : cluster.inside.startSeconds;
  // A sum is scattered and gathered.
  return exchange.kind == runtime::Exchange::allReduce ? start + 2 * once : start + once;
}

ClusterStep playThrough(const Cluster &cluster, const StepEvents &step, int64_t ranks) {
  ClusterStep made;
  made.computeSeconds = cluster.stepSeconds.value_or(step.computedSeconds);
  const double scale = step.computedSeconds > 0 ? made.computeSeconds / step.computedSeconds : 0;
  std::map<int64_t, double> overAt;
  double now = 0, lastOver = 0;
  for (const StepEvent &event : step.events) {
    now += event.computedSeconds * scale;
    if (event.starts) {
      const double seconds = transferSeconds(cluster, event.exchange, ranks);
      made.transferSeconds += seconds;
      lastOver = std::max(now, lastOver) + seconds;
      overAt[event.flight] = lastOver;
    } else if (const double over = overAt.at(event.flight); over > now) {
      made.exposedSeconds += over - now;
      now = over;
    }
  }
  if (ranks > 1)
    made.waitSeconds = cluster.spread * std::sqrt(2 * std::log(double(ranks))) * made.computeSeconds;
  return made;
}

} // namespace tcc::models
