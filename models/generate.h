// `train_gpt --generate`: generates text from weights that are trained already.
#pragma once
#include "frontend/compile.h"
#include "models/options.h"
#include "models/run_device.h"
#include "models/sampling.h"
#include "models/tokenizer.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tcc::models {

/// The options for the compiler, for a function on `device`. `report` gets the compiler's messages.
FunctionOptions functionOptions(const TrainOptions &options, const RunDevice &device, std::vector<std::string> inputs,
                                std::vector<std::string> outputs, std::function<void(std::string_view)> report);

SamplingOptions samplingOptions(const TrainOptions &options);

/// `text` as tokens: by the tokenizer, else bytes where the vocabulary is 256. Empty text becomes the one token that
/// texts start with. Throws Error for a text where the vocabulary has no bytes and there is no tokenizer.
std::vector<int32_t> promptTokens(const std::string &text, int64_t vocabulary, const Tokenizer *tokenizer);
/// Tokens as text for a terminal (see renderTokens).
std::string renderText(std::span<const int32_t> tokens, int64_t vocabulary, const Tokenizer *tokenizer);

/// Prints the prompt and what the model of options.initFolder makes of it to `output`, up to the first of options.stop.
/// Throws Error for a bad folder or prompt.
void generate(const TrainOptions &options, std::FILE *output);

} // namespace tcc::models
