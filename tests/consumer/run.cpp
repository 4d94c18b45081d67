// An artefact run by the runtime alone.
#include "runtime/executable.h"

int main(int, char **arguments) {
  auto artefact = tcc::runtime::readArtefact(arguments[1]);
  return artefact && tcc::runtime::Executable::load(std::move(*artefact)) ? 0 : 1;
}
