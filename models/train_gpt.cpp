// train_gpt: trains a GPT-2 on a text or token file; `train_gpt --help` lists its options.
// Exit status: 0; 1 for an error that was printed; 2 for a wrong command line.
#include "models/options.h"
#include "models/trainer.h"

#include <cstdio>
#include <exception>
#include <new>

int main(int count, char **arguments) {
  using namespace tcc::models;
  const ParsedOptions parsed = parseTrainOptions({arguments + 1, arguments + count});
  if (!parsed.options) {
    if (parsed.exitStatus == 0)
      std::printf("%s", parsed.message.c_str());
    else
      std::fprintf(stderr, "error: %s\n", parsed.message.c_str());
    return parsed.exitStatus;
  }
  try {
    // A log on stdout stays JSON alone.
    train(*parsed.options, parsed.options->jsonFile == "-" ? stderr : stdout);
    return 0;
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "error: out of memory; a smaller --batch or --seq needs less\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}
