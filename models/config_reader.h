// Reading a Hugging Face config.json: keys of a known kind, errors that name file and key.
#pragma once
#include "frontend/files.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tcc::models {

constexpr int64_t sizeLimit = int64_t(1) << 24; ///< for every size in a configuration
constexpr int64_t layerLimit = 4096;            ///< for layers, each of which needs a list of names and ops
constexpr double elementLimit = 0x1p40;         ///< for the elements of all parameters together

/// The JSON object of a config.json (at most 1 MiB, 16 levels). Throws Error where it is none.
nlohmann::ordered_json parseConfigFile(const MappedFile &file);

/// Keys of a configuration; absent and null mean "the default of transformers". Every error is an Error.
struct ConfigReader {
  const std::string &path;
  const nlohmann::ordered_json &json;

  /// Null where the key is absent.
  const nlohmann::ordered_json *value(const char *key) const;
  int64_t size(const char *key) const; ///< from 1 to sizeLimit
  int64_t size(const char *key, int64_t absent) const;
  std::string text(const char *key, const char *absent) const;
  double number(const char *key, double absent) const;
  bool flag(const char *key, bool absent) const;
  /// Refuses a switch that is not in its one supported position.
  void expect(const char *key, bool supported) const;

  /// A value for a message.
  static std::string shown(const nlohmann::ordered_json &value);
};

/// The keys of a config.json that is written: `own` are always written, `usual` only if the model did not come from
/// another config.json.
struct ConfigKeys {
  nlohmann::ordered_json usual, own;
};

} // namespace tcc::models
