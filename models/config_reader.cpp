#include "models/config_reader.h"
#include "frontend/quotes.h"
#include "models/json_file.h"

#include <fmt/format.h>

namespace tcc::models {

using Json = nlohmann::ordered_json;

Json parseConfigFile(const MappedFile &file) {
  Json json = parseJsonFile<Json>(file, {.bytes = 1 << 20, .kind = "a config.json"});
  if (!json.is_object())
    throw Error(fmt::format("{}: not a JSON object", file.path()));
  return json;
}

const Json *ConfigReader::value(const char *key) const {
  auto at = json.find(key);
  return at == json.end() || at->is_null() ? nullptr : &*at;
}

int64_t ConfigReader::size(const char *key) const {
  const Json *found = value(key);
  if (!found)
    throw Error(fmt::format("{}: `{}` is missing, this kind of model needs it", path, key));
  if (!found->is_number_unsigned() || *found < uint64_t(1) || *found > uint64_t(sizeLimit))
    throw Error(
        fmt::format("{}: `{}` is {}, a whole number from 1 to {} is expected", path, key, shown(*found), sizeLimit));
  return found->get<int64_t>();
}

int64_t ConfigReader::size(const char *key, int64_t absent) const {
  return value(key) ? size(key) : absent;
}

std::string ConfigReader::text(const char *key, const char *absent) const {
  const Json *found = value(key);
  if (found && !found->is_string())
    throw Error(fmt::format("{}: `{}` is {}, a string is expected", path, key, shown(*found)));
  return found ? found->get<std::string>() : absent;
}

double ConfigReader::number(const char *key, double absent) const {
  const Json *found = value(key);
  if (found && !found->is_number())
    throw Error(fmt::format("{}: `{}` is {}, a number is expected", path, key, shown(*found)));
  return found ? found->get<double>() : absent;
}

bool ConfigReader::flag(const char *key, bool absent) const {
  const Json *found = value(key);
  if (found && !found->is_boolean())
    throw Error(fmt::format("{}: `{}` is {}, true or false is expected", path, key, shown(*found)));
  return found ? found->get<bool>() : absent;
}

void ConfigReader::expect(const char *key, bool supported) const {
  const Json *found = value(key);
  if (found && *found != supported)
    throw Error(fmt::format("{}: `{}` is {}, only {} is supported", path, key, shown(*found), supported));
}

std::string ConfigReader::shown(const Json &value) {
  return inQuotes(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

} // namespace tcc::models
