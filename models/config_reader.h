// Reading a Hugging Face config.json: keys of a known kind, errors that name file and key.
#pragma once
#include "frontend/files.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tcc::models {

constexpr int64_t sizeLimit = int64_t(1) << 24; ///< of every size in a configuration
constexpr int64_t layerLimit = 4096;            ///< each makes a list of names and ops
constexpr double elementLimit = 0x1p40;         ///< of all parameters together

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

/// What a written config.json says: `usual` where no other file was the model's source, `own` always.
struct ConfigKeys {
  nlohmann::ordered_json usual, own;
};

} // namespace tcc::models
