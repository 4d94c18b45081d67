#include "models/option_needs.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace tcc::models {
namespace {

struct Need {
  std::vector<const char *> options;
  std::vector<const char *> needed; ///< one of these
  const char *words;                ///< `needed` with what its value is, and why
};

const std::vector<Need> &needs() {
  static const std::vector<Need> table = {
      {{"--lora", "--adapter"}, {"--init"}, "--init FOLDER: the weights that an adapter is for"},
      {{"--lora-alpha"}, {"--lora"}, "--lora RANK"},
      {{"--dump-tokens"}, {"--tokenizer"}, "--tokenizer FOLDER"},
      {{"--train-tokenizer"}, {"--tokenizer"}, "--tokenizer FOLDER, where the tokenizer is kept"},
      {{"--eval-data", "--eval-share", "--eval-batches"}, {"--eval-every"}, "--eval-every N"},
      {{"--checkpoint-every", "--keep", "--resume"}, {"--checkpoint"}, "--checkpoint FOLDER"},
      {{"--hash-every"}, {"--json"}, "--json FILE, which the checksums stand in"},
      {{"--memory", "--price-per-hour", "--cluster"}, {"--estimate"}, "--estimate"},
      {{"--static", "--initial-states"}, {"--compile-only"}, "--compile-only FILE"},
      {{"--prompt", "--temperature", "--top-k", "--top-p", "--stop", "--no-kv-cache"},
       {"--sample", "--generate"},
       "--sample N or --generate N"},
  };
  return table;
}

} // namespace

std::string lackedOption(const std::function<bool(const char *)> &isGiven) {
  for (const Need &need : needs())
    if (std::ranges::none_of(need.needed, isGiven))
      for (const char *option : need.options)
        if (isGiven(option))
          return fmt::format("{} needs {}", option, need.words);
  return "";
}

} // namespace tcc::models
