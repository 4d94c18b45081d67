// tcc_open and tcc_close, and the artefact that a program holds. A program is either opened from a file or linked into
// the process as data. The opened ones are in a list: only they are deleted when they are closed.
#include "c_api/program.h"
#include <map>
#include <memory>
#include <mutex>

namespace tcc::c {
namespace {

struct OpenedProgram : tcc_program {
  std::string bytes;
};

struct OpenedPrograms {
  std::mutex mutex;
  std::map<const tcc_program *, std::unique_ptr<OpenedProgram>> list;
};

OpenedPrograms &openedPrograms() {
  static auto *only = new OpenedPrograms; // never deleted, since programs may be closed while the process ends
  return *only;
}

} // namespace

runtime::Expected<tcc_program *> openProgram(const std::string &path) {
  auto bytes = runtime::readArtefactBytes(path);
  if (!bytes)
    return bytes.error();
  auto artefact = runtime::parseArtefact(*bytes);
  if (!artefact)
    return runtime::Error("`" + path + "`: " + artefact.error().message());
  auto opened = std::make_unique<OpenedProgram>();
  opened->bytes = std::move(*bytes);
  opened->version = programVersion;
  opened->parts = static_cast<uint32_t>(artefact->targets.size());
  opened->artefact = opened->bytes.data();
  opened->artefactBytes = opened->bytes.size();
  opened->linked = nullptr;
  opened->signature = 0;
  tcc_program *program = opened.get();
  std::lock_guard lock(openedPrograms().mutex);
  openedPrograms().list.emplace(program, std::move(opened));
  return program;
}

void closeProgram(tcc_program *program) {
  std::lock_guard lock(openedPrograms().mutex);
  openedPrograms().list.erase(program);
}

runtime::Expected<runtime::Artefact> artefactOf(const tcc_program &program) {
  if (program.version != programVersion)
    return runtime::Error("the step was compiled for version " + std::to_string(program.version) +
                          " of the runtime's interface; this runtime has version " + std::to_string(programVersion) +
                          ": compile it again");
  auto artefact = runtime::parseArtefact({program.artefact, program.artefactBytes});
  if (!artefact)
    return artefact;
  if (artefact->targets.size() != program.parts)
    return runtime::Error("the step is damaged: its artefact has " + std::to_string(artefact->targets.size()) +
                          " parts, its table " + std::to_string(program.parts));
  for (size_t i = 0; i < program.parts && program.linked; ++i) {
    const LinkedPart &part = program.linked[i];
    if (part.count == 0)
      continue;
    for (const runtime::LinkedKernel &kernel : std::span(part.kernels, part.count)) {
      const auto place = reinterpret_cast<uintptr_t>(kernel.function),
                 begin = reinterpret_cast<uintptr_t>(program.artefact);
      if (place < begin || place >= begin + program.artefactBytes)
        return runtime::Error("the step is damaged: its table has a kernel that is not in its artefact");
    }
    artefact->targets[i].linked = {part.kernels, part.count};
    for (std::string &code : artefact->targets[i].code) // the linked kernels run instead of it
      code = {};
  }
  return artefact;
}

} // namespace tcc::c
