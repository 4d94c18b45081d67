// compare_runs A B: the first step and tensor where two runs of train_gpt differ. A and B are JSON logs or folders of
// checkpoints. Exit status: 0 where they are equal; 1 where they differ; 2 for an error.
#include "models/run_comparison.h"

#include <cstdio>
#include <exception>

int main(int count, char **arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: compare_runs A B    (two --json logs, or two folders of --checkpoint)\n");
    return 2;
  }
  try {
    const tcc::models::RunDifference difference = tcc::models::compareRuns(arguments[1], arguments[2]);
    std::printf("%s\n", difference.text.c_str());
    return difference.differ ? 1 : 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
