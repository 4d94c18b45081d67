#include "models/generate.h"
#include "frontend/quotes.h"
#include "models/model.h"
#include "models/run_setup.h"
#include "models/start_folders.h"
#include "models/text_generator.h"
#include "models/tokenizer_files.h"

#include <algorithm>
#include <fmt/format.h>

namespace tcc::models {

FunctionOptions functionOptions(const TrainOptions &options, const RunDevice &device, std::vector<std::string> inputs,
                                std::vector<std::string> outputs, std::function<void(std::string_view)> report) {
  FunctionOptions function;
  function.inputs = std::move(inputs);
  function.outputs = std::move(outputs);
  static_cast<CompilerFlags &>(function) = options;
  function.device = device.device;
  function.report = std::move(report);
  return function;
}

SamplingOptions samplingOptions(const TrainOptions &options) {
  return {.temperature = options.temperature, .topK = options.topK, .topP = options.topP, .seed = options.seed};
}

std::string renderText(std::span<const int32_t> tokens, int64_t vocabulary, const Tokenizer *tokenizer) {
  if (!tokenizer)
    return renderTokens(tokens, vocabulary);
  const std::string bytes = tokenizer->decode(tokens);
  std::vector<int32_t> values;
  for (const char byte : bytes)
    values.push_back(uint8_t(byte));
  return renderTokens(values, 256);
}

std::vector<int32_t> promptTokens(const std::string &text, int64_t vocabulary, const Tokenizer *tokenizer) {
  if (tokenizer) {
    std::vector<int32_t> tokens = tokenizer->encode(text == TrainOptions{}.prompt ? "" : text);
    if (tokens.empty())
      tokens.push_back(tokenizer->startOfText().value_or(0));
    for (const int32_t token : tokens)
      if (token >= vocabulary)
        throw Error(fmt::format("the tokenizer makes token {} of --prompt, but the model's vocabulary is {}", token,
                                vocabulary));
    return tokens;
  }
  if (vocabulary != 256) {
    if (!text.empty() && text != TrainOptions{}.prompt)
      throw Error(fmt::format(
          "--prompt is text, but a vocabulary of {} has no bytes; only one of 256 has (--tokenizer reads texts)",
          vocabulary));
    return {int32_t(vocabulary - 1)}; // for GPT-2 the end of the text before
  }
  std::vector<int32_t> tokens;
  for (const char c : text)
    tokens.push_back(uint8_t(c));
  if (tokens.empty())
    tokens.push_back('\n');
  return tokens;
}

void generate(const TrainOptions &given, std::FILE *output) {
  TrainOptions options = given;
  findStartFolders(options);
  const ModelFolder folder(options.initFolder);
  std::optional<AdapterFolder> adapter;
  if (!options.adapterFolder.empty())
    adapter.emplace(options.adapterFolder, folder.config());
  Model model(folder.config(), adapter ? std::optional(adapter->config()) : std::nullopt);
  model.load(folder);
  if (adapter)
    model.load(*adapter);
  const int64_t vocabulary = folder.config().vocabulary();
  const std::optional<Tokenizer> tokenizer = options.tokenizerFolder.empty()
                                                 ? folderTokenizer(options.initFolder)
                                                 : std::optional<Tokenizer>(options.tokenizerFolder);
  const Tokenizer *byTokenizer = tokenizer ? &*tokenizer : nullptr;
  const std::vector<int32_t> prompt = promptTokens(options.prompt, vocabulary, byTokenizer);
  const auto report = [&](std::string_view text) {
    if (!options.quiet)
      fmt::print(stderr, "{}\n", text);
  };
  checkSequence(options, folder.config());
  const int64_t sequence = options.sequence.value_or(std::min<int64_t>(folder.config().positions(), 1024));
  const RunDevice device = chooseDevice(options.device, options.tuning);
  report(device.note);
  chooseProducts(options, device);
  TextGenerator generator(model, sequence, functionOptions(options, device, {}, {}, report), options.cachesKeys);
  // The first place where one of the stop texts begins.
  const auto stopAt = [&](const std::string &text) {
    size_t first = std::string::npos;
    for (const std::string &stop : options.stop)
      first = std::min(first, text.find(stop));
    return first;
  };
  const auto ends = [&](std::span<const int32_t> made) {
    return !options.stop.empty() && stopAt(renderText(made, vocabulary, byTokenizer)) != std::string::npos;
  };
  const std::vector<int32_t> made = generator.generate(prompt, options.generateTokens, samplingOptions(options), ends);
  report(generator.times().text());
  std::string rendered = renderText(made, vocabulary, byTokenizer);
  if (const size_t end = stopAt(rendered); end != std::string::npos)
    rendered.resize(end);
  const std::string start = tokenizer || vocabulary == 256 ? renderText(prompt, vocabulary, byTokenizer) : "";
  fmt::print(output, "{}{}\n", start, rendered);
  std::fflush(output);
}

} // namespace tcc::models
