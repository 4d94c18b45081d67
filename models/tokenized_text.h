// Turns texts into tokens once, and keeps these in the user's cache, where they are read as any other file of tokens.
#pragma once
#include "models/tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tcc::models {

/// Whether `path` is a file of tokens already: an llm.c shard by its header, or a .bin file. Throws Error where it
/// cannot be read.
bool isTokenFile(const std::string &path);

/// Writes `ids` as an llm.c shard of uint32 tokens. Throws Error for 2^31 tokens or more, or a failed write.
void writeTokenShard(const std::string &path, std::span<const int32_t> ids);

/// Where tokens with this checksum are kept: a file in `cache`, or $XDG_CACHE_HOME/tcc/tokens where that is empty.
/// Makes the folder; throws Error where it cannot.
std::string keptTokensPath(const std::string &checksum, std::string_view ending, std::string cache);

/// Whether the tokens of `source` were kept at the path `kept` and are as they were written. `report` is told which it
/// is, and that damaged ones are made anew.
bool areKept(const std::string &kept, const std::string &source, const std::function<void(std::string_view)> &report);

/// The path of a shard with the tokens of the text file `path`. It lies in `cache`, or in $XDG_CACHE_HOME/tcc/tokens if
/// that is empty, where it is found by the checksums of text and tokenizer. If it is not there, it is made. `report` is
/// told which of the two happened.
std::string tokenizedFile(const std::string &path, const Tokenizer &tokenizer,
                          const std::function<void(std::string_view)> &report, std::string cache = {});

} // namespace tcc::models
