// tcc, the command line.
#include "frontend/driver/run.h"

int main(int count, char **arguments) {
  return tcc::driver::run(count, arguments);
}
