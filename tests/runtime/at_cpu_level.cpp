// at_cpu_level LEVEL PROGRAM [ARGUMENTS...]: runs the program as on a CPU of a level of x86-64, by TCC_CPU. Where this
// CPU is below the level, or has nothing above it (the program's own test has run it then), it exits with 77: skipped.
#include "runtime/cpu.h"
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace tcc::runtime;

int main(int count, char **arguments) {
  constexpr int skipped = 77;
  if (count < 3) {
    std::fputs("usage: at_cpu_level LEVEL PROGRAM [ARGUMENTS...]\n", stderr);
    return 2;
  }
  const char *level = arguments[1];
  std::string all;
  for (const std::string_view feature : knownCpuFeatures())
    all += "," + std::string(feature);
  if (const Expected<std::string_view> exists = limitedLevel(level, all); !exists) {
    std::fprintf(stderr, "%s\n", exists.error().message().c_str());
    return 2;
  }
  if (const Error wrong = checkCpuLimit()) {
    std::fprintf(stderr, "%s\n", wrong.message().c_str());
    return 2;
  }
  const Expected<std::string_view> shown = limitedLevel(level, cpuFeatures());
  if (!shown) {
    std::printf("skipped: %s\n", shown.error().message().c_str());
    return skipped;
  }
  if (cpuFeatures() == featuresOfLevel(*shown)) {
    std::printf("skipped: this CPU has nothing above %s\n", level);
    return skipped;
  }
  ::setenv("TCC_CPU", level, 1);
  ::execvp(arguments[2], arguments + 2);
  std::perror(arguments[2]);
  return 2;
}
