// train_gpt: trains a GPT-2 on a text or token file; `train_gpt --help` lists its options.
// Exit status: 0; 1 for an error that was printed; 2 for a wrong command line or TCC_CPU; 128 + n after signal n.
#include "frontend/error.h"
#include "models/ablation.h"
#include "models/estimate.h"
#include "models/export_step.h"
#include "models/generate.h"
#include "models/ladder.h"
#include "models/launch_ranks.h"
#include "models/options.h"
#include "models/options_file.h"
#include "models/run_device.h"
#include "models/run_ranks.h"
#include "models/trainer.h"
#include "runtime/cpu.h"
#include "runtime/files.h"
#include "runtime/ranks/ranks.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

namespace {

using namespace tcc::models;

int run(int count, char **arguments) {
  const ParsedOptions parsed = parseTrainOptions({arguments + 1, arguments + count}, deviceKinds(), readOptionsFile);
  if (!parsed.options) {
    if (parsed.exitStatus == 0)
      std::fputs(parsed.message.c_str(), stdout);
    else
      std::fprintf(stderr, "error: %s\n", parsed.message.c_str());
    return parsed.exitStatus;
  }
  if (const tcc::runtime::Error wrong = tcc::runtime::checkCpuLimit()) {
    std::fprintf(stderr, "error: %s\n", wrong.message().c_str());
    return 2;
  }
  std::shared_ptr<tcc::runtime::Ranks> ranks;
  const auto firstSays = parsed.options->reportFolder.empty() ? FirstSays::maybeTheSame : FirstSays::afterItsPage;
  try {
    checkCompilerFlags(*parsed.options);
    if (parsed.options->generateTokens > 0) {
      generate(*parsed.options, stdout);
      return 0;
    }
    // A log on stdout stays JSON alone.
    std::FILE *const table = parsed.options->jsonFile == "-" ? stderr : stdout;
    if (parsed.options->ladder)
      return climbLadder({arguments + 1, arguments + count}, *parsed.options, table);
    if (parsed.options->ablate)
      return ablate({arguments + 1, arguments + count}, *parsed.options, table);
    if (parsed.options->estimate) {
      estimate(*parsed.options, parsed.options->jsonFile == "-" ? stderr : stdout);
      return 0;
    }
    if (!parsed.options->compileOnly.empty()) {
      exportStep(*parsed.options);
      return 0;
    }
    if (startsRanks(*parsed.options)) {
      plannedOptions(*parsed.options); // what its ranks would all refuse is refused once, and before they start
      return startRanks(*parsed.options, {arguments + 1, arguments + count});
    }
    ranks = joinRun();
    if (!ranks && parsed.options->fastReduce)
      std::fprintf(stderr,
                   "warning: --reduce=fast changes nothing here: one process adds up nothing with others (--ranks)\n");
    const int status = train(*parsed.options, table, ranks);
    leaveRun(ranks, status);
    return status;
  } catch (const CommonError &error) {
    return endRun(ranks.get(), error.what(), error.exitStatus(), FirstSays::theSame);
  } catch (const tcc::Error &error) {
    return endRun(ranks.get(), error.what(), error.exitStatus(), firstSays);
  } catch (const std::bad_alloc &) {
    return endRun(ranks.get(), "out of memory; a smaller --batch or --seq needs less", 1, firstSays);
  } catch (const std::exception &error) {
    return endRun(ranks.get(), error.what(), 1, firstSays);
  }
}

} // namespace

int main(int count, char **arguments) {
  tcc::runtime::guardStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file beyond the user's limit is an error of its writer
  const int status = run(count, arguments);
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return status;
  if (status == 0) // a log on stdout has said so itself
    std::fprintf(stderr, "error: cannot write to stdout: %s\n", std::strerror(errno));
  return status ? status : 1;
}
