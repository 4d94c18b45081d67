// A step that is exported to a library and loaded from it: by load(), by the C runtime in this process, by the dynamic
// linker. Its bits are the function's own.
#include <dlpack/dlpack.h>
// after DLPack
#include "c_api/tcc_runtime.h"
#include "runtime/executable.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include "tests/library/small_step.h"
#include "tests/mutate.h"
#include "tests/state_bytes.h"
#include <cstring>
#include <dlfcn.h>
#include <elf.h>

namespace tcc {
namespace {

using test::SmallStep;
using test::TemporaryFolder;

constexpr int steps = 4;

/// The message of the Error that `action` throws.
template <typename Action>
std::string messageOf(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// What training gives: loss and norm of each step, then the bytes of all states.
struct Training {
  std::vector<float> results;
  std::string states;
  bool operator==(const Training &) const = default;
};

/// By the compiled function.
Training trainByFunction(SmallStep &step) {
  Training training;
  for (int i = 0; i < steps; ++i)
    for (const Array &result : step.function.call(SmallStep::arguments(i)))
      training.results.push_back(result.read<float>()[0]);
  training.states = test::bytesOf(step.function.states());
  return training;
}

/// A library of the step, made once, and the states that training begins with.
struct Exported {
  TemporaryFolder folder;
  std::string library = folder / "step.so", states = folder / "states.safetensors";
  Training expected;

  Exported() {
    SmallStep step;
    step.function.exportLibrary(library, SmallStep::arguments(0));
    step.function.save(states);
    expected = trainByFunction(step);
  }
};

const Exported &exported() {
  static const Exported only;
  return only;
}

/// Through a table of the C runtime's functions: this process's own, or a library's.
struct Calls {
  decltype(&tcc_create) create = tcc_create;
  decltype(&tcc_run) run = tcc_run;
  decltype(&tcc_load_states) loadStates = tcc_load_states;
  decltype(&tcc_get_state) getState = tcc_get_state;
  decltype(&tcc_describe) describe = tcc_describe;
  decltype(&tcc_count) count = tcc_count;
  decltype(&tcc_destroy) destroy = tcc_destroy;
  decltype(&tcc_last_error) lastError = tcc_last_error;
};

/// `shift`: bytes by which the memory of inputs and outputs is off its alignment.
Training trainByC(const tcc_program *program, const Calls &calls = {}, size_t shift = 0,
                  const tcc_options *options = nullptr) {
  Training training;
  tcc_step *step = nullptr;
  EXPECT_EQ(calls.create(program, options, &step), TCC_OK) << calls.lastError();
  if (!step)
    return training;
  EXPECT_EQ(calls.loadStates(step, exported().states.c_str()), TCC_OK) << calls.lastError();
  for (int i = 0; i < steps; ++i) {
    std::vector<std::vector<char>> copies;
    std::vector<const void *> inputs;
    for (const Array &array : SmallStep::arguments(i)) {
      copies.emplace_back(static_cast<size_t>(array.bytes()) + 128);
      char *data = copies.back().data();
      data += 64 - reinterpret_cast<uintptr_t>(data) % 64 + shift;
      std::memcpy(data, array.rawForReading(), static_cast<size_t>(array.bytes()));
      inputs.push_back(data);
    }
    alignas(64) float results[48] = {};
    void *outputs[] = {reinterpret_cast<char *>(results) + shift, reinterpret_cast<char *>(results + 16) + shift};
    EXPECT_EQ(calls.run(step, inputs.data(), inputs.size(), outputs, 2), TCC_OK) << calls.lastError();
    for (void *output : outputs) {
      float value;
      std::memcpy(&value, output, sizeof value);
      training.results.push_back(value);
    }
  }
  for (size_t i = 0; i < calls.count(step, TCC_STATE); ++i) {
    tcc_tensor_info tensor{sizeof tensor, nullptr, nullptr, nullptr, 0, 0, 0};
    EXPECT_EQ(calls.describe(step, TCC_STATE, i, &tensor), TCC_OK);
    std::string bytes(tensor.bytes, '\0');
    EXPECT_EQ(calls.getState(step, tensor.name, bytes.data(), bytes.size()), TCC_OK) << calls.lastError();
    training.states += bytes;
  }
  calls.destroy(step);
  return training;
}

struct Opened {
  tcc_program *program = nullptr;
  explicit Opened(const std::string &path) { EXPECT_EQ(tcc_open(path.c_str(), &program), TCC_OK) << tcc_last_error(); }
  ~Opened() { tcc_close(program); }
};

struct LoadedC {
  tcc_step *step = nullptr;
  explicit LoadedC(const tcc_program *program) {
    EXPECT_EQ(tcc_create(program, nullptr, &step), TCC_OK) << tcc_last_error();
  }
  ~LoadedC() { tcc_destroy(step); }
};

TEST(Library, LoadedByNameHasTheBitsOfTheFunction) {
  LoadedStep step = load(exported().library);
  EXPECT_EQ(step.inputs()[0].name, "x");
  EXPECT_EQ(step.outputs()[1].name, "norm");
  step.load(exported().states);
  Training training;
  for (int i = 0; i < steps; ++i)
    for (const Array &result : step.call(SmallStep::arguments(i)))
      training.results.push_back(result.read<float>()[0]);
  training.states = test::bytesOf(step.states());
  EXPECT_EQ(training, exported().expected);
  EXPECT_EQ(step.executable().plannedBytes(), step.executable().peakBytes());
}

TEST(Library, LoadedStepsShareTheProgramsStates) {
  SmallStep model;
  LoadedStep step = load(exported().library, {.states = {model.w1, model.w2}});
  for (const State &state : step.states())
    if (state.name() == "b1")
      std::memset(state.raw(), 0, static_cast<size_t>(state.bytes()));
  const std::vector<float> before(model.w1.read<float>().begin(), model.w1.read<float>().end());
  step.call(SmallStep::arguments(0));
  EXPECT_FALSE(std::ranges::equal(before, model.w1.read<float>())) << "the step updates the program's own state";
  EXPECT_HAS(messageOf([] { load(exported().library, {.states = {State("w1", {3, 2})}}); }),
             "state 'w1' is f32[3, 2], in ");
  EXPECT_HAS(messageOf([] { load(exported().library, {.states = {State("other", {3, 2})}}); }), "has no state 'other'");
  EXPECT_HAS(messageOf([&] { step(Array(1.0)); }), "is called with 1 arguments; it takes 4");
  EXPECT_HAS(messageOf([&] { step(Array({8, 23}), Array({8}, DType::i32), Array(1.0), Array(1.0)); }),
             "argument 'x' of " + exported().library + " is f32[8, 24]; it is called with f32[8, 23]");
  EXPECT_HAS(messageOf([] { load("/nowhere/step.so"); }), "/nowhere/step.so");
}

TEST(Library, FunctionsTakeTheirCompiledStepAndNoOther) {
  SmallStep step(nullptr, exported().library);
  EXPECT_EQ(trainByFunction(step), exported().expected);
  EXPECT_HAS(step.function.lastCompile().cache, "not used: the step is that of " + exported().library);
  EXPECT_GT(step.function.lastCompile().kernels, 0);
  const auto refusal = [](SmallStep &&other) {
    return messageOf([&] { other.function.call(SmallStep::arguments(0)); });
  };
  EXPECT_HAS(refusal(SmallStep(nullptr, exported().library, 2)), "holds another step");
  const std::string nameless = exported().folder / "nameless.tcc";
  runtime::Artefact artefact = *runtime::readArtefact(exported().library);
  artefact.metadata.erase("graph");
  ASSERT_FALSE(runtime::writeArtefact(artefact, nameless));
  EXPECT_HAS(refusal(SmallStep(nullptr, nameless)), "does not say which step it holds");
}

TEST(Library, OpenedByTheCRuntimeHasTheBitsOfTheFunction) {
  const Opened opened(exported().library);
  EXPECT_EQ(trainByC(opened.program), exported().expected);
  EXPECT_EQ(trainByC(opened.program, {}, /*shift=*/4), exported().expected) << "memory off its alignment is copied";
  const tcc_options checked{sizeof checked, 1, 1, "cpu"};
  EXPECT_EQ(trainByC(opened.program, {}, 0, &checked), exported().expected);
}

TEST(Library, LinkedByTheSystemHasTheBitsOfTheFunction) {
  void *library = dlopen(exported().library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const auto find = [&]<typename F>(F &function, const char *name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    EXPECT_TRUE(function) << name;
  };
  const tcc_program *(*program)() = nullptr;
  find(program, "small_step_program");
  Calls calls;
  find(calls.loadStates, "small_step_load_states");
  find(calls.getState, "small_step_get_state");
  find(calls.describe, "small_step_describe");
  find(calls.count, "small_step_count");
  find(calls.destroy, "small_step_destroy");
  find(calls.lastError, "small_step_last_error");
  find(calls.create, "tcc_create"); // of the runtime that the library has brought along
  find(calls.run, "tcc_run");
  ASSERT_NE(calls.run, tcc_run);
  EXPECT_EQ(trainByC(program(), calls), exported().expected);
  // Its kernels run where they lie: the linker's symbols of the code are in the library's own file.
  int (*create)(const tcc_options *, tcc_step **) = nullptr;
  find(create, "small_step_create");
  tcc_step *step = nullptr;
  ASSERT_EQ(create(nullptr, &step), TCC_OK) << calls.lastError();
  calls.destroy(step);
  dlclose(library);
}

TEST(Library, SeveralMachinesInOneFileTheBestFirst) {
  SmallStep step;
  const std::string path = exported().folder / "several.so";
  setenv("TCC_CACHE_DIR", exported().folder.path("cache").c_str(), 1);
  step.function.exportLibrary(path, SmallStep::arguments(0), {"x86-64-v3"});
  step.function.exportLibrary(path, SmallStep::arguments(0), {"x86-64", "x86-64-v3", "x86-64-v2"});
  setenv("TCC_CACHE_DIR", "off", 1); // as of all tests
  const std::string cache = step.function.lastCompile().cache;
  EXPECT_FALSE(step.function.lastCompile().fromCache);
  EXPECT_HAS(cache, "cpu:x86-64: miss: target differs: ");
  EXPECT_HAS(cache, "\ncpu:x86-64-v3: hit: ");
  EXPECT_HAS(cache, "\ncpu:x86-64-v2: miss: target differs: ");
  const runtime::Artefact artefact = *runtime::readArtefact(path);
  std::vector<std::string> targets;
  for (const runtime::TargetCode &part : artefact.targets)
    targets.push_back(part.target);
  EXPECT_EQ(targets, (std::vector<std::string>{"cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:x86-64"}));
  const Opened opened(path);
  const LoadedC loaded(opened.program);
  EXPECT_STREQ(tcc_target(loaded.step), "cpu:x86-64-v3");
}

TEST(Library, DamagedFilesAreRefused) {
  const std::string good = test::readAll(exported().library);
  const std::string goodArtefact = *runtime::readArtefactBytes(exported().library);
  const TemporaryFolder folder(test::memoryFolder());
  std::mt19937 random(7);
  int refused = 0, intact = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string path = folder.write("bad.so", test::mutated(good, random));
    tcc_program *program = nullptr;
    if (tcc_open(path.c_str(), &program) != TCC_OK) {
      ++refused;
      EXPECT_FALSE(program);
      EXPECT_HAS(std::string(tcc_last_error()), path);
      continue;
    }
    ++intact; // what was changed is not part of the step
    EXPECT_EQ(*runtime::readArtefactBytes(path), goodArtefact);
    tcc_close(program);
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(intact, 20);
  for (const char *text : {"",
                           "\x7f"
                           "ELF",
                           "hello", "tccart\r\n"}) {
    tcc_program *program = nullptr;
    EXPECT_EQ(tcc_open(folder.write("bad.so", text).c_str(), &program), TCC_FAILED);
  }
  tcc_program *program = nullptr;
  EXPECT_EQ(tcc_open(exported().folder.path("").c_str(), &program), TCC_FAILED) << "a folder";
  EXPECT_EQ(tcc_open("/proc/self/exe", &program), TCC_FAILED);
  EXPECT_HAS(std::string(tcc_last_error()), "has no compiled step");
}

/// Section headers may name one long piece of the file 65,000 times.
TEST(Library, LongNamesOfManySectionsCostLittle) {
  constexpr size_t sections = 65000, nameBytes = 100000;
  std::string bytes(sizeof(Elf64_Ehdr), '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident,
              "\x7f"
              "ELF",
              4);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = sections;
  header.e_shoff = sizeof header;
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = header.e_shoff + sections * sizeof section;
  section.sh_size = nameBytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  for (size_t i = 0; i < sections; ++i)
    bytes.append(reinterpret_cast<const char *>(&section), sizeof section);
  bytes += ".tcc." + std::string(nameBytes - 5, 'a');
  const TemporaryFolder folder(test::memoryFolder());
  tcc_program *program = nullptr;
  EXPECT_EQ(tcc_open(folder.write("many.so", bytes).c_str(), &program), TCC_FAILED);
  EXPECT_HAS(std::string(tcc_last_error()), "has several compiled steps");
  EXPECT_LT(std::string(tcc_last_error()).size(), 1000u);
}

TEST(Library, DamagedCodeThatIsLinkedInIsRefused) {
  std::string bytes = test::readAll(exported().library);
  const std::string artefact = *runtime::readArtefactBytes(exported().library);
  const size_t at = bytes.find(artefact);
  ASSERT_NE(at, std::string::npos) << "the artefact lies in the library as it is";
  bytes[at +
        artefact.find("\x7f"
                      "ELF") +
        5000] ^= 4;
  const std::string path = exported().folder.write("flipped.so", bytes);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  auto create = reinterpret_cast<int (*)(const tcc_options *, tcc_step **)>(dlsym(library, "small_step_create"));
  auto lastError = reinterpret_cast<const char *(*)()>(dlsym(library, "small_step_last_error"));
  tcc_step *step = nullptr;
  EXPECT_EQ(create(nullptr, &step), TCC_FAILED);
  EXPECT_FALSE(step);
  EXPECT_HAS(std::string(lastError()), "its checksum does not match");
  dlclose(library);
}

TEST(Library, WrongCallsSaySoAndDoNothing) {
  const Opened opened(exported().library);
  const LoadedC loaded(opened.program);
  tcc_step *step = loaded.step;
  const auto wrong = [](int status, const std::string &text) {
    EXPECT_EQ(status, TCC_WRONG_USE);
    EXPECT_HAS(std::string(tcc_last_error()), text);
  };
  tcc_step *none = nullptr;
  size_t index = 0;
  wrong(tcc_open(nullptr, nullptr), "null");
  wrong(tcc_create(nullptr, nullptr, &none), "null");
  wrong(tcc_create_for(opened.program, 1, nullptr, &none), "tensors are others");
  tcc_options options{3, 0, 0, nullptr};
  wrong(tcc_create(opened.program, &options, &none), "struct_size is 3");
  options = {sizeof options, -1, 0, nullptr};
  wrong(tcc_create(opened.program, &options, &none), "threads is -1");
  for (const char *device : {"tpu", "cpu:1", "cuda:x", ""}) {
    options = {sizeof options, 0, 0, device};
    EXPECT_EQ(tcc_create(opened.program, &options, &none), TCC_FAILED);
    EXPECT_HAS(std::string(tcc_last_error()), "unknown device");
  }
  wrong(tcc_find(step, TCC_STATE, "w9", &index), "no state `w9`");
  wrong(tcc_find(step, 7, "w1", &index), "kind is none");
  tcc_tensor_info tensor{sizeof tensor, nullptr, nullptr, nullptr, 0, 0, 0};
  wrong(tcc_describe(step, TCC_INPUT, 4, &tensor), "no such tensor");
  float number = 0;
  wrong(tcc_set_state(step, "w1", &number, 4), "has 7680 bytes, not 4");
  wrong(tcc_get_state(step, "w1", nullptr, 7680), "null");
  EXPECT_EQ(tcc_state_data(step, "w9"), nullptr);
  std::vector<Array> arguments = SmallStep::arguments(0);
  const void *inputs[] = {arguments[0].raw(), arguments[1].raw(), arguments[2].raw(), nullptr};
  void *outputs[2] = {};
  wrong(tcc_run(step, inputs, 3, outputs, 2), "3 inputs are given; the step has 4");
  wrong(tcc_run(step, inputs, 4, outputs, 2), "input `step` is null");
  wrong(tcc_run(step, nullptr, 4, outputs, 2), "list of inputs is null");
  inputs[3] = arguments[3].raw();
  wrong(tcc_run(step, inputs, 4, nullptr, 2), "list of outputs is null");
  EXPECT_EQ(tcc_run(step, inputs, 4, outputs, 2), TCC_OK) << "outputs that are not wanted";
  struct {
    size_t structSize;
    const void *data[4];
  } structs{sizeof structs, {inputs[0], inputs[1], inputs[2], inputs[3]}};
  EXPECT_EQ(tcc_run_structs(step, &structs, nullptr), TCC_OK) << tcc_last_error();
  structs.structSize = 16;
  wrong(tcc_run_structs(step, &structs, nullptr), "the struct of inputs has struct_size 16; this step's has 40");
  tcc_destroy(nullptr);
  tcc_close(nullptr);
  EXPECT_EQ(tcc_count(nullptr, TCC_INPUT), 0u);
}

TEST(Library, StatesGoOutAndInByFile) {
  const Opened opened(exported().library);
  const LoadedC loaded(opened.program);
  tcc_step *step = loaded.step;
  float zero[SmallStep::classes];
  ASSERT_EQ(tcc_get_state(step, "b2", zero, sizeof zero), TCC_OK);
  EXPECT_EQ(zero[3], 0.0f) << "states begin with zeros";
  ASSERT_EQ(tcc_load_states(step, exported().states.c_str()), TCC_OK) << tcc_last_error();
  const std::string saved = exported().folder / "saved.safetensors";
  ASSERT_EQ(tcc_save_states(step, saved.c_str()), TCC_OK) << tcc_last_error();
  EXPECT_EQ(test::readAll(saved), test::readAll(exported().states));
  float before[SmallStep::classes], after[SmallStep::classes];
  ASSERT_EQ(tcc_get_state(step, "b2", before, sizeof before), TCC_OK);
  const std::string bytes = test::readAll(saved);
  EXPECT_EQ(
      tcc_load_states(step, exported().folder.write("cut.safetensors", bytes.substr(0, bytes.size() - 1)).c_str()),
      TCC_FAILED);
  EXPECT_EQ(tcc_load_states(step, "/nowhere"), TCC_FAILED);
  EXPECT_EQ(tcc_save_states(step, "/nowhere/at/all"), TCC_FAILED);
  ASSERT_EQ(tcc_get_state(step, "b2", after, sizeof after), TCC_OK);
  EXPECT_EQ(std::memcmp(before, after, sizeof after), 0);
}

TEST(Library, TensorsByDlpack) {
  const Opened opened(exported().library);
  const LoadedC loaded(opened.program);
  tcc_step *step = loaded.step;
  ASSERT_EQ(tcc_load_states(step, exported().states.c_str()), TCC_OK);
  std::vector<Array> arguments = SmallStep::arguments(0);
  int64_t shape[] = {SmallStep::rows, SmallStep::inputs};
  DLTensor x{}, targets{}, scalar{}, number{}, loss{};
  const auto fill = [&](DLTensor &tensor, void *data, int rank, uint8_t code) {
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = rank;
    tensor.dtype = {code, 32, 1};
    tensor.shape = shape;
  };
  float result = 0;
  fill(x, arguments[0].raw(), 2, kDLFloat);
  fill(targets, arguments[1].raw(), 1, kDLInt);
  fill(scalar, arguments[2].raw(), 0, kDLFloat);
  fill(number, arguments[3].raw(), 0, kDLFloat);
  fill(loss, &result, 0, kDLFloat);
  const DLTensor *inputs[] = {&x, &targets, &scalar, &number}, *outputs[] = {&loss, nullptr};
  ASSERT_EQ(tcc_run_dlpack(step, inputs, 4, outputs, 2), TCC_OK) << tcc_last_error();
  EXPECT_EQ(result, exported().expected.results[0]);
  int64_t strides[] = {1, SmallStep::rows};
  x.strides = strides;
  EXPECT_EQ(tcc_run_dlpack(step, inputs, 4, outputs, 2), TCC_WRONG_USE);
  EXPECT_HAS(std::string(tcc_last_error()), "input `x` is not dense and row-major");
  x.strides = nullptr;
  x.dtype.bits = 64;
  EXPECT_EQ(tcc_run_dlpack(step, inputs, 4, outputs, 2), TCC_WRONG_USE);
  EXPECT_HAS(std::string(tcc_last_error()), "has another type than f32");

  DLManagedTensor *lent = nullptr;
  ASSERT_EQ(tcc_state_dlpack(step, "w2", &lent), TCC_OK) << tcc_last_error();
  EXPECT_EQ(lent->dl_tensor.data, tcc_state_data(step, "w2"));
  EXPECT_EQ(lent->dl_tensor.shape[0], SmallStep::hidden);
  EXPECT_EQ(lent->dl_tensor.dtype.code, kDLFloat);
  lent->deleter(lent);
}

TEST(Library, WhatCannotBeExportedSaysWhy) {
  SmallStep step;
  const auto refusal = [&](const std::string &path) {
    return messageOf([&] { step.function.exportLibrary(path, SmallStep::arguments(0)); });
  };
  EXPECT_HAS(refusal("step.dll"), "one that ends in .so, .a or .o is expected");
  EXPECT_HAS(refusal("/nowhere/at/all.so"), "/nowhere/at/all.so");
  Function breaks = compile("breaks", [](Tensor x) { return x * x.item(); });
  try {
    breaks.exportLibrary(exported().folder / "breaks.so", std::vector{Array(1.0)});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error &error) {
    EXPECT_HAS(std::string(error.what()), "has graph breaks");
  }
}

} // namespace
} // namespace tcc
