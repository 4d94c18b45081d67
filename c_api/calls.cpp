// The functions of tcc_runtime.h: arguments are checked here, and nothing is thrown out of here.
#include "c_api/guard.h"
#include "c_api/program.h"
#include "c_api/step.h"
#include "runtime/cpu.h"
#include <cstring>

using namespace tcc;
using namespace tcc::c;

static thread_local std::string lastError = "no call has failed";

int tcc::c::failed(int status, std::string message) noexcept {
  lastError = std::move(message);
  return status;
}

namespace {

int statusOf(const runtime::Error &error) {
  return error ? failed(TCC_FAILED, error.message()) : TCC_OK;
}

const char *wordOf(int kind) {
  return kind == TCC_INPUT ? "input" : kind == TCC_OUTPUT ? "output" : "state";
}

bool isKind(int kind) {
  return kind == TCC_INPUT || kind == TCC_OUTPUT || kind == TCC_STATE;
}

/// The members of a caller's struct that it has, the others as they were.
template <typename T>
bool takeStruct(T &into, const T *given) {
  if (given->struct_size < sizeof(size_t) || given->struct_size > 4096)
    return false;
  std::memcpy(&into, given, std::min(given->struct_size, sizeof into));
  into.struct_size = sizeof into;
  return true;
}

std::string countText(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

int checkPointers(const tcc_step *step, int kind, const void *const *pointers, size_t count) {
  const auto &specs = step->step->tensors(kind);
  const char *what = wordOf(kind);
  if (count != specs.size())
    return wrongUse(countText(count, what) + (count == 1 ? " is" : " are") + " given; the step has " +
                    std::to_string(specs.size()));
  if (count > 0 && !pointers)
    return wrongUse(std::string("the list of ") + what + "s is null; the step has " + std::to_string(count));
  for (size_t i = 0; i < count && kind == TCC_INPUT; ++i)
    if (!pointers[i] && specs[i].bytes() > 0)
      return wrongUse("input `" + specs[i].name + "` is null; it has " + std::to_string(specs[i].bytes()) + " bytes");
  return TCC_OK;
}

/// The pointers of a struct that begins with its size.
int pointersOf(const tcc_step *step, int kind, const void *given, const void *const *&pointers, size_t &count) {
  if (!given) {
    pointers = nullptr;
    count = 0;
    return TCC_OK;
  }
  size_t bytes;
  std::memcpy(&bytes, given, sizeof bytes);
  const size_t expected = sizeof(size_t) + step->step->tensors(kind).size() * sizeof(void *);
  if (bytes != expected)
    return wrongUse(std::string("the struct of ") + wordOf(kind) + "s has struct_size " + std::to_string(bytes) +
                    "; this step's has " + std::to_string(expected) +
                    ": is its header the one that was written with it?");
  pointers = reinterpret_cast<const void *const *>(static_cast<const char *>(given) + sizeof(size_t));
  count = step->step->tensors(kind).size();
  return TCC_OK;
}

int findTensor(const tcc_step *step, int kind, const char *name, size_t &index) {
  if (!step || !name)
    return wrongUse("a step and a name are needed, and one of them is null");
  const auto &specs = step->step->tensors(kind);
  for (index = 0; index < specs.size(); ++index)
    if (specs[index].name == name)
      return TCC_OK;
  return wrongUse(std::string("the step has no ") + wordOf(kind) + " `" + name + "`; it has " +
                  countText(specs.size(), wordOf(kind)) +
                  (specs.empty() ? "" : ", the first of which is `" + specs.front().name + "`"));
}

/// The state's index where it has `bytes` bytes and `data` is there.
int findState(const tcc_step *step, const char *name, const void *data, size_t bytes, size_t &index) {
  if (const int status = findTensor(step, TCC_STATE, name, index))
    return status;
  const auto &spec = step->step->tensors(TCC_STATE)[index];
  if (static_cast<int64_t>(bytes) != spec.bytes())
    return wrongUse("state `" + spec.name + "` has " + std::to_string(spec.bytes()) + " bytes, not " +
                    std::to_string(bytes));
  return data || bytes == 0 ? TCC_OK : wrongUse("the memory for state `" + spec.name + "` is null");
}

} // namespace

extern "C" {

const char *tcc_last_error(void) {
  return lastError.c_str();
}

const char *tcc_version(void) {
  return TCC_VERSION;
}

int tcc_abi(void) {
  return TCC_RUNTIME_ABI;
}

int tcc_open(const char *path, tcc_program **program) {
  return guarded([&] {
    if (!path || !program)
      return wrongUse("tcc_open: path or program is null");
    auto opened = openProgram(path);
    *program = opened ? *opened : nullptr;
    return statusOf(opened.error());
  });
}

void tcc_close(tcc_program *program) {
  (void)guarded([&] {
    closeProgram(program);
    return TCC_OK;
  });
}

int tcc_create(const tcc_program *program, const tcc_options *options, tcc_step **step) {
  return guarded([&] {
    if (step)
      *step = nullptr;
    if (!program || !step)
      return wrongUse("tcc_create: program or step is null");
    tcc_options given{sizeof given, 0, 0, nullptr};
    if (options && !takeStruct(given, options))
      return wrongUse("tcc_options: struct_size is " + std::to_string(options->struct_size) +
                      "; sizeof(tcc_options) is expected");
    if (given.threads < 0)
      return wrongUse("tcc_options: threads is " + std::to_string(given.threads) + "; 0 or more is expected");
    if (runtime::Error wrong = runtime::checkCpuLimit())
      return statusOf(wrong);
    auto artefact = artefactOf(*program);
    if (!artefact)
      return statusOf(artefact.error());
    auto created = Step::create(std::move(*artefact), given);
    if (!created)
      return statusOf(created.error());
    *step = new tcc_step{std::move(*created)};
    return int(TCC_OK);
  });
}

int tcc_create_for(const tcc_program *program, uint64_t signature, const tcc_options *options, tcc_step **step) {
  return guarded([&] {
    if (!program || program->signature == signature)
      return tcc_create(program, options, step);
    if (step)
      *step = nullptr;
    return wrongUse("the library's tensors are others than those of the header that this program was compiled with; "
                    "compile it again");
  });
}

void tcc_destroy(tcc_step *step) {
  delete step;
}

size_t tcc_count(const tcc_step *step, int kind) {
  return step && isKind(kind) ? step->step->tensors(kind).size() : 0;
}

int tcc_describe(const tcc_step *step, int kind, size_t index, tcc_tensor_info *tensor) {
  return guarded([&] {
    if (!step || !tensor || !isKind(kind) || index >= step->step->tensors(kind).size())
      return wrongUse("tcc_describe: there is no such tensor");
    const runtime::TensorSpec &spec = step->step->tensors(kind)[index];
    const tcc_tensor_info full{sizeof full,
                               spec.name.c_str(),
                               runtime::name(spec.dtype).data(),
                               spec.shape.data(),
                               static_cast<int32_t>(spec.shape.size()),
                               0,
                               static_cast<size_t>(spec.bytes())};
    const size_t room = tensor->struct_size;
    if (room < sizeof(size_t) || room > 4096)
      return wrongUse("tcc_tensor_info: struct_size is " + std::to_string(room) +
                      "; sizeof(tcc_tensor_info) is expected");
    std::memcpy(tensor, &full, std::min(room, sizeof full));
    tensor->struct_size = room;
    return int(TCC_OK);
  });
}

int tcc_find(const tcc_step *step, int kind, const char *name, size_t *index) {
  return guarded([&] {
    if (!index || !isKind(kind))
      return wrongUse("tcc_find: index is null, or the kind is none");
    return findTensor(step, kind, name, *index);
  });
}

int tcc_run(tcc_step *step, const void *const *inputs, size_t input_count, void *const *outputs, size_t output_count) {
  return guarded([&] {
    if (!step)
      return wrongUse("tcc_run: the step is null");
    if (const int status = checkPointers(step, TCC_INPUT, inputs, input_count))
      return status;
    if (const int status = checkPointers(step, TCC_OUTPUT, outputs, output_count))
      return status;
    return statusOf(step->step->run({inputs, input_count}, {outputs, output_count}));
  });
}

int tcc_run_structs(tcc_step *step, const void *inputs, const void *outputs) {
  return guarded([&] {
    if (!step)
      return wrongUse("the step is null");
    const void *const *in = nullptr, *const *out = nullptr;
    size_t inCount = 0, outCount = 0;
    if (const int status = pointersOf(step, TCC_INPUT, inputs, in, inCount))
      return status;
    if (const int status = pointersOf(step, TCC_OUTPUT, outputs, out, outCount))
      return status;
    const std::vector<void *> none(step->step->tensors(TCC_OUTPUT).size());
    if (const int status = checkPointers(step, TCC_INPUT, in, inCount))
      return status;
    const auto wanted = out ? std::span(const_cast<void *const *>(out), outCount) : std::span<void *const>(none);
    return statusOf(step->step->run({in, inCount}, wanted));
  });
}

int tcc_get_state(tcc_step *step, const char *name, void *to, size_t bytes) {
  return guarded([&] {
    size_t index = 0;
    if (const int status = findState(step, name, to, bytes, index))
      return status;
    return statusOf(step->step->readState(index, to));
  });
}

int tcc_set_state(tcc_step *step, const char *name, const void *from, size_t bytes) {
  return guarded([&] {
    size_t index = 0;
    if (const int status = findState(step, name, from, bytes, index))
      return status;
    return statusOf(step->step->writeState(index, from));
  });
}

void *tcc_state_data(tcc_step *step, const char *name) {
  void *data = nullptr;
  (void)guarded([&] {
    size_t index = 0;
    if (const int status = findTensor(step, TCC_STATE, name, index))
      return status;
    data = step->step->stateData(index);
    return int(TCC_OK);
  });
  return data;
}

int tcc_save_states(tcc_step *step, const char *path) {
  return guarded([&] {
    if (!step || !path)
      return wrongUse("tcc_save_states: step or path is null");
    return statusOf(step->step->save(path));
  });
}

int tcc_load_states(tcc_step *step, const char *path) {
  return guarded([&] {
    if (!step || !path)
      return wrongUse("tcc_load_states: step or path is null");
    return statusOf(step->step->load(path));
  });
}

size_t tcc_planned_bytes(const tcc_step *step) {
  return step ? static_cast<size_t>(step->step->executable().plannedBytes()) : 0;
}

size_t tcc_peak_bytes(const tcc_step *step) {
  return step ? static_cast<size_t>(step->step->executable().peakBytes()) : 0;
}

const char *tcc_target(const tcc_step *step) {
  return step ? step->step->executable().target().c_str() : "";
}

} // extern "C"
