// The program that a machine with a GPU runs once: flash attention's kernels against a reference, lane maps against the
// repository's tables, then speed.
//   gpu_attention cases                      number of self-test cases
//   gpu_attention case N                     one self-test case; exit 1 and the worst element if it fails
//   gpu_attention lanes [warp|hopper] [--write-tables FOLDER]
//                                            lane maps and swizzles; exit 1 if they differ from the tables. Written
//                                            tables are the device's own: to take them over, copy them to
//                                            tests/cuda_emulator/lane_maps/tables
//   gpu_attention small                      a few small launches, for compute-sanitizer
//   gpu_attention bench FILE                 TFLOP/s of all shapes, one JSON line each into FILE, a table on stdout
//   gpu_attention sweep FILE                 the same for other tiles and switches of each pass, and whether they
//                                            give equal bits
//   gpu_attention prebuild [ARCHITECTURE]    cubins into the folder of --cubins; with an architecture it needs
//                                            no device
// Options: --cubins FOLDER; --emulator ARCHITECTURE runs in the emulator instead of on a device (a rehearsal: small
// shapes, meaningless times).
#include "gpu_attention/program.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

using namespace tcc::gpu_attention;

namespace {

struct Options {
  std::string cubins, emulator, tables;
  std::vector<std::string> words;
};

int usage() {
  std::fprintf(stderr,
               "usage: gpu_attention [--cubins FOLDER] [--emulator ARCHITECTURE] [--write-tables FOLDER] cases | "
               "case N | lanes [warp|hopper] | small | bench FILE | sweep FILE | prebuild [ARCHITECTURE]\n");
  return 2;
}

int run(const Options &options) {
  const std::string command = options.words.empty() ? "" : options.words[0];
  const std::string argument = options.words.size() < 2 ? "" : options.words[1];
  bool rehearsal = !options.emulator.empty();
  std::vector<SelfTest> tests = selfTests(rehearsal);
  if (command == "cases") {
    std::printf("%zu\n", tests.size());
    return 0;
  }
  if (command == "prebuild") {
    std::size_t count = prebuild(options.cubins, argument, allKernels);
    std::printf("%zu cubins in %s\n", count, options.cubins.c_str());
    return 0;
  }
  bool known = command == "case" || command == "small" ||
               (command == "lanes" && (argument.empty() || argument == "warp" || argument == "hopper")) ||
               ((command == "bench" || command == "sweep") && !argument.empty());
  if (!known)
    return usage();
  std::unique_ptr<Backend> backend = rehearsal ? openEmulator(options.emulator) : openDevice(options.cubins);
  if (!backend)
    throw std::runtime_error("this program was built without the emulator");
  if (command == "case") {
    std::size_t number = std::strtoul(argument.c_str(), nullptr, 10);
    if (argument.empty() || number >= tests.size())
      throw std::runtime_error("case " + argument + ": there are cases 0 to " + std::to_string(tests.size() - 1));
    return runCase(*backend, tests[number]) ? 0 : 1;
  }
  if (command == "lanes")
    return runLanes(*backend, argument, options.tables) ? 0 : 1;
  if (command == "bench")
    bench(*backend, argument, rehearsal);
  if (command == "sweep")
    sweep(*backend, argument, rehearsal);
  bool good = true;
  if (command == "small")
    for (const SelfTest &test : smallTests())
      good &= runCase(*backend, test);
  return good ? 0 : 1;
}

} // namespace

int main(int count, char **values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = values[i];
    if (word == "--cubins" && i + 1 < count)
      options.cubins = values[++i];
    else if (word == "--emulator" && i + 1 < count)
      options.emulator = values[++i];
    else if (word == "--write-tables" && i + 1 < count)
      options.tables = values[++i];
    else
      options.words.push_back(word);
  }
  try {
    return run(options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpu_attention: %s\n", error.what());
    return 1;
  }
}
