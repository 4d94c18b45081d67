// The files of a tokenizer in a folder of weights, which transformers' AutoTokenizer and --init read there.
#pragma once
#include "models/tokenizer.h"
#include "runtime/json_reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// The tokens that a text begins and ends with, where there are such ones.
struct TextEnds {
  std::optional<int32_t> begin, end;
};

/// The tokenizer of a run, for the folders of weights that it writes.
struct TokenizerFiles {
  struct File {
    std::string name, content;
  };
  std::vector<File> files; ///< none: the run has no tokenizer
  TextEnds ends;
  /// Whether the model had another tokenizer, or none, before. If so, `ends` replace what its config.json says.
  bool replaces = false;
};

/// The tokenizer files of `folder`, as they are. If they are missing, a tokenizer.json is made of vocab.json and
/// merges.txt, and a tokenizer_config.json for a model of `positions`. Gives no files where the folder has no
/// tokenizer. Throws Error for files that cannot be read.
TokenizerFiles tokenizerFilesOf(const std::string &folder, int64_t positions);

/// What the tokenizer of `folder` begins and ends a text with: what its files call bos_token and eos_token, else tokens
/// of usual names. Throws Error for files that cannot be read.
TextEnds textEnds(const Tokenizer &tokenizer, const std::string &folder);

/// tokenizer_config.json of `folder`, an object; empty where there is no such file. Throws Error for a file that cannot
/// be read.
runtime::Json tokenizerSettings(const std::string &folder);

/// The token that a file beside a tokenizer has under `key`: a string, or an object with its content. Empty: none.
std::string namedToken(const runtime::Json &json, const char *key);

/// The files for a model whose tokens are bytes: token b is byte b, and no token begins or ends a text.
TokenizerFiles byteTokenizerFiles(int64_t positions);

/// Writes the files into `folder`, and removes other files that an earlier tokenizer has left there. Does nothing if
/// there are no files. Throws Error if the system cannot write.
void writeTokenizerFiles(const std::string &folder, const TokenizerFiles &tokenizer);

/// The tokenizer of a folder of weights, or nothing where it has none or one of bytes, which are tokens already. Throws
/// as Tokenizer does.
std::optional<Tokenizer> folderTokenizer(const std::string &folder);

/// The paths that writeTokenizerFiles may replace.
std::vector<std::string> tokenizerFilePaths(const std::string &folder);

} // namespace tcc::models
