// The file of --config: YAML, or JSON, which is YAML too.
#pragma once
#include "models/file_options.h"

namespace tcc::models {

/// The keys of the map in the file at `path`, in their order. Throws Error, with line and column (in bytes, from 1),
/// for a file that is larger than 1 MiB, no text, not YAML or no single map of keys to texts and lists of texts; for a
/// key that stands there twice; and for anchors, aliases and tags.
std::vector<FileOption> readOptionsFile(const std::string &path);

} // namespace tcc::models
