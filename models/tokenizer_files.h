// The tokenizer of a folder of weights, as files: what transformers' AutoTokenizer and --init read there.
#pragma once
#include "models/tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// The tokenizer of a run, for the folders of weights that it writes.
struct TokenizerFiles {
  struct File {
    std::string name, content;
  };
  std::vector<File> files; ///< none: the run has no tokenizer
  /// The tokens that a text begins and ends with, where there are such ones.
  std::optional<int32_t> begin, end;
  /// Whether the model had another tokenizer, or none, before: then `begin` and `end` replace what its config.json
  /// says.
  bool replaces = false;
};

/// The tokenizer files of `folder`, as they are. If they are missing, a tokenizer.json is made of vocab.json and
/// merges.txt, and a tokenizer_config.json for a model of `positions`. Gives no files where the folder has no
/// tokenizer. Throws Error for files that cannot be read.
TokenizerFiles tokenizerFilesOf(const std::string &folder, int64_t positions);

/// The files for a model whose tokens are bytes: token b is byte b, and no token begins or ends a text.
TokenizerFiles byteTokenizerFiles(int64_t positions);

/// Writes them into `folder`, and removes what else a tokenizer before them has left there. Does nothing where there
/// are none. Throws Error where the system cannot.
void writeTokenizerFiles(const std::string &folder, const TokenizerFiles &tokenizer);

/// The tokenizer of a folder of weights, or nothing where it has none or one of bytes, which are tokens already. Throws
/// as Tokenizer does.
std::optional<Tokenizer> folderTokenizer(const std::string &folder);

/// The paths that writeTokenizerFiles may replace.
std::vector<std::string> tokenizerFilePaths(const std::string &folder);

} // namespace tcc::models
