// Attention and its gradient from a graph to the machine of stand-ins, on both kinds of kernels: results of the
// interpreter, equal bits eager, captured, late, early and in memory of its own for each value; and planted faults.
#include "codegen/compile_session.h"
#include "codegen/graph_reference.h"
#include "codegen/graph_runner.h"
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_kernels/attention_sample.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/expected.h"
#include "tests/ops/op_table.h"

using namespace mlir;

namespace tcc::test {
namespace {

using machine::MachineTest;
using runtime::LaunchCall;

// The row sums of the log-sum-exp come from approximate exponentials.
const Tolerance tolerance{4, 16};

const AttentionSample samples[] = {
    {"packed", "bf16", 200, 200, 5, 5, 64, "diagonal 0 "},
    {"grouped", "f16", 72, 72, 4, 2, 64, "diagonal 0 ", 2},
    {"window", "bf16", 200, 200, 2, 1, 64, "diagonal 0 window 40 "},
    {"longer_keys", "bf16", 65, 130, 2, 2, 128, "diagonal 65 "},
    {"unmasked", "f16", 64, 100, 3, 1, 32, "", 2},
    {"dropout", "bf16", 72, 72, 4, 2, 64, "diagonal 0 ", 2, "i32"},
    {"dropout_of_part", "f16", 65, 130, 2, 2, 128, "diagonal 65 window 90 ", 2, "i64", true},
    {"dropout_wide", "bf16", 40, 40, 3, 3, 96, "", 1, "i64"},
    {"bias", "bf16", 72, 72, 4, 2, 64, "", 2, nullptr, false, {2, 4, 72, 72}},
    {"bias_of_pairs", "f16", 40, 100, 2, 2, 32, "", 2, nullptr, false, {1, 1, 40, 100}},
    {"bias_of_keys", "bf16", 65, 65, 3, 1, 128, "diagonal 0 window 30 ", 2, "i64", true, {2, 1, 1, 65}},
    {"bias_of_queries", "bf16", 65, 33, 5, 5, 96, "", 1, "i32", false, {1, 5, 65, 1}},
};

std::string machineOf(const std::string &architecture) {
  return architecture == "sm_80" ? "a100," : "h200,";
}

class CudaAttention : public MachineTest {
protected:
  /// Parses and compiles a graph; its reference stands in `reference`.
  std::optional<runtime::Artefact> compile(const std::string &text, const std::string &architecture) {
    std::string messages;
    captured = parseText(*context, text, messages);
    EXPECT_TRUE(captured) << messages << text;
    if (!captured)
      return std::nullopt;
    CompileOptions options;
    options.targetName = "cuda:" + architecture;
    auto artefact = compileArtefact(captured->clone(), options);
    EXPECT_TRUE(artefact) << artefact.error().message();
    return artefact ? std::optional(std::move(*artefact)) : std::nullopt;
  }

  std::vector<RefTensor> inputs() {
    std::vector<RefTensor> list;
    for (Type type : mainOf(*captured).getArgumentTypes())
      list.push_back(randomTensor(cast<RankedTensorType>(type), 17 + list.size(), -2, 2));
    return list;
  }

  /// Two runs, of which the second is captured unless `settings` say otherwise; nothing and the reason in `error`.
  std::optional<std::vector<RefTensor>> run(const runtime::Artefact &artefact, const std::string &settings,
                                            std::string &error, bool capture = true, bool separate = false) {
    use(settings);
    runtime::cuda::StepDeviceOptions options;
    options.capture = capture;
    auto device = runtime::cuda::openStepDevice(options);
    if (!device) {
      error = device.error().message();
      return std::nullopt;
    }
    auto runner = GraphRunner::load(artefact, mainOf(*captured),
                                    {.threads = 1, .checked = true, .device = *device, .separate = separate});
    if (!runner) {
      error = runner.error().message();
      return std::nullopt;
    }
    std::vector<RefTensor> given = inputs();
    auto first = (*runner)->run(given), second = first ? (*runner)->run(given) : first;
    if (second && !sameBits(*first, *second)) {
      error = "the second run has other bits";
      return std::nullopt;
    }
    return take(std::move(second), error);
  }

  void expectBits(const runtime::Artefact &artefact, const std::string &settings,
                  const std::vector<RefTensor> &expected, bool capture = true, bool separate = false) {
    std::string error;
    auto results = run(artefact, settings, error, capture, separate);
    ASSERT_TRUE(results) << settings << ": " << error;
    EXPECT_TRUE(sameBits(*results, expected)) << settings;
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> captured;
};

/// The launches of attention, by label.
/// The launches of flash kernels, labelled without their places in the graph.
std::vector<runtime::Instruction> launchesOf(const runtime::Plan &plan) {
  std::vector<runtime::Instruction> found;
  for (runtime::Instruction instruction : plan.instructions) {
    const size_t place = instruction.label.rfind(": ");
    if (place != std::string::npos)
      instruction.label.erase(0, place + 2);
    if (instruction.label.starts_with("flash_attention ") || instruction.label.starts_with("flash_attention_backward "))
      found.push_back(std::move(instruction));
  }
  return found;
}

struct Setting {
  AttentionSample sample;
  std::string architecture;
};
void PrintTo(const Setting &setting, std::ostream *os) {
  *os << setting.sample.name << " on " << setting.architecture;
}

class CudaAttentionCases : public CudaAttention, public testing::WithParamInterface<Setting> {};

TEST_P(CudaAttentionCases, EqualTheInterpreterAndTheirOwnBits) {
  const auto &[sample, architecture] = GetParam();
  auto artefact = compile(attentionGraph(sample), architecture);
  ASSERT_TRUE(artefact);
  ASSERT_EQ(launchesOf(artefact->targets[0].plan).size(), 3u);
  const std::string machine = machineOf(architecture);
  std::string error;
  auto results = run(*artefact, machine + "late,checked", error);
  ASSERT_TRUE(results) << error;
  EXPECT_EQ(counters().captures, 1u);
  auto reference = Reference::make(*captured, inputs());
  ASSERT_TRUE(reference) << reference.error().message();
  EXPECT_EQ(reference->check(*results, tolerance), "");
  expectBits(*artefact, machine + "early,reverse,early-copies", *results, false);
  expectBits(*artefact, machine + "random,shuffled,random-copies,seed=5", *results, true, true);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const AttentionSample &sample : samples)
    for (const char *architecture : {"sm_80", "sm_90a"})
      all.push_back({sample, architecture});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, CudaAttentionCases, testing::ValuesIn(settings()),
                         [](const testing::TestParamInfo<Setting> &info) {
                           return std::string(info.param.sample.name) + "_" + info.param.architecture;
                         });

//===- the plan ------------------------------------------------------------------------------------------------===//

TEST_F(CudaAttention, ReadsPackedHeadsInPlace) {
  auto artefact = compile(attentionGraph(samples[0]), "sm_90a");
  ASSERT_TRUE(artefact);
  const runtime::Plan &plan = artefact->targets[0].plan;
  std::vector<runtime::Instruction> launches = launchesOf(plan);
  ASSERT_EQ(launches.size(), 3u);
  const auto &forward = std::get<LaunchCall>(launches[0].call);
  ASSERT_EQ(forward.mapSlots.size(), 3u);
  const int64_t row = 2 * samples[0].packed();
  int64_t offset = plan.buffers[forward.mapSlots[0].buffer].offset;
  for (const runtime::MapSlot &slot : forward.mapSlots) {
    EXPECT_EQ(slot.sizes, (std::vector<int64_t>{64, 200, 5, 1}));
    EXPECT_EQ(slot.strides[0], row);
    EXPECT_EQ(slot.strides[1], 128);
    EXPECT_EQ(plan.buffers[slot.buffer].offset, offset);
    offset += 5 * 128; // the next five heads of the same tensor
  }
}

TEST_F(CudaAttention, SaysWhatItsLaunchesDo) {
  auto artefact = compile(attentionGraph(samples[0]), "sm_80");
  ASSERT_TRUE(artefact);
  std::vector<runtime::Instruction> launches = launchesOf(artefact->targets[0].plan);
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].label, "flash_attention 1x5 200x200x64 causal");
  EXPECT_EQ(launches[1].label, "flash_attention_backward dq 1x5 200x200x64 causal");
  EXPECT_EQ(launches[2].label, "flash_attention_backward dk dv 1x5 200x200x64 causal");
  const int64_t product = int64_t(2) * 64 * 5 * (200 * 201 / 2), tensor = 200 * 5 * 64 * 2, row = 200 * 5 * 4;
  EXPECT_EQ(launches[0].flops, 2 * product);
  EXPECT_EQ(launches[1].flops + launches[2].flops, 5 * product);
  EXPECT_EQ(launches[0].bytes, 4 * tensor + row);
}

TEST_F(CudaAttention, ExpandsWhatNoKernelServes) {
  AttentionSample sample{"other", "bf16", 24, 24, 2, 2, 80, "diagonal 0 "};
  auto other = compile(attentionGraph(sample), "sm_90a");
  ASSERT_TRUE(other);
  EXPECT_TRUE(launchesOf(other->targets[0].plan).empty());
  sample.element = "f32";
  sample.width = 64;
  auto wide = compile(attentionGraph(sample), "sm_90a");
  ASSERT_TRUE(wide);
  EXPECT_TRUE(launchesOf(wide->targets[0].plan).empty());
}

// The labels say so, bytes count a bias once where it is repeated, and Hopper's kernels, which add none, are not taken.
TEST_F(CudaAttention, AddsABiasWhereItLies) {
  const AttentionSample sample{"bias", "bf16", 64, 64, 2, 2, 64, "", 3, nullptr, false, {3, 1, 1, 64}};
  for (const char *architecture : {"sm_80", "sm_90a"}) {
    auto artefact = compile(attentionGraph(sample), architecture);
    ASSERT_TRUE(artefact);
    std::vector<runtime::Instruction> launches = launchesOf(artefact->targets[0].plan);
    ASSERT_EQ(launches.size(), 3u);
    EXPECT_EQ(launches[0].label, "flash_attention 3x2 64x64x64 bias");
    const int64_t tensor = 3 * 64 * 2 * 64 * 2, rows = 3 * 2 * 64 * 4, bias = 3 * 64 * 4;
    EXPECT_EQ(launches[0].bytes, 4 * tensor + rows + bias);
    EXPECT_TRUE(std::get<LaunchCall>(launches[0].call).mapSlots.empty());
  }
}

TEST_F(CudaAttention, SaysThatHoppersKernelsAddNoBias) {
  for (const bool isHopper : {false, true}) {
    std::string messages;
    captured = parseText(
        *context, attentionGraph({"bias", "bf16", 64, 64, 2, 2, 64, "", 1, nullptr, false, {1, 1, 64, 64}}), messages);
    ASSERT_TRUE(captured) << messages;
    CompileOptions options;
    options.targetName = isHopper ? "cuda:sm_90a" : "cuda:sm_80";
    options.remarks = true;
    auto session = CompileSession::open(options);
    ASSERT_TRUE(session) << session.error().message();
    ASSERT_TRUE(session->plan(captured->clone()));
    const Remarks &remarks = session->report().remarks;
    EXPECT_EQ(llvm::any_of(remarks,
                           [](const Remark &remark) {
                             return remark.kind == Remark::Kind::missed && remark.pass == "kernels" &&
                                    remark.text ==
                                        "attention with a mask or bias is computed by the kernels for sm_80: "
                                        "those of sm_90a, by wgmma, add none";
                           }),
              isHopper);
  }
}

// A slice that begins between two vectors is copied first; the kernels would be refused it.
TEST_F(CudaAttention, CopiesHeadsThatAreNotAligned) {
  std::string text = R"(func.func @main(%x: tensor<1x16x1x67xbf16>, %k: tensor<1x16x1x64xbf16>)
      -> (tensor<1x16x1x64xbf16>, tensor<1x1x16xf32>) {
    %q = tcc.slice %x [0, 0, 0, 3] to [1, 16, 1, 67] : tensor<1x16x1x67xbf16> -> tensor<1x16x1x64xbf16>
    %o:2 = tcc.flash_attention %q, %k, %k scale 0.125
        : (tensor<1x16x1x64xbf16>, tensor<1x16x1x64xbf16>, tensor<1x16x1x64xbf16>)
        -> (tensor<1x16x1x64xbf16>, tensor<1x1x16xf32>)
    func.return %o#0, %o#1 : tensor<1x16x1x64xbf16>, tensor<1x1x16xf32>
  })";
  auto artefact = compile(text, "sm_90a");
  ASSERT_TRUE(artefact);
  EXPECT_EQ(artefact->targets[0].plan.instructions.size(), 2u);
  std::string error;
  auto results = run(*artefact, "h200,late,checked", error);
  ASSERT_TRUE(results) << error;
  auto reference = Reference::make(*captured, inputs());
  ASSERT_TRUE(reference) << reference.error().message();
  EXPECT_EQ(reference->check(*results, tolerance), "");
}

//===- states that move ----------------------------------------------------------------------------------------===//

const char *const stateText =
    R"(func.func @main(%k: tensor<1x80x2x64xbf16> {tcc.name = "k"}, %q: tensor<1x80x2x64xbf16> {tcc.name = "q", tcc.state})
    -> (tensor<1x80x2x64xbf16> {tcc.name = "out"}, tensor<1x2x80xf32> {tcc.name = "lse"},
        tensor<1x80x2x64xbf16> {tcc.updates = "q"}) {
  %o:2 = tcc.flash_attention %q, %k, %k diagonal 0 scale 0.125
      : (tensor<1x80x2x64xbf16>, tensor<1x80x2x64xbf16>, tensor<1x80x2x64xbf16>)
      -> (tensor<1x80x2x64xbf16>, tensor<1x2x80xf32>)
  %next = tcc.neg %q : tensor<1x80x2x64xbf16>
  func.return %o#0, %o#1, %next : tensor<1x80x2x64xbf16>, tensor<1x2x80xf32>, tensor<1x80x2x64xbf16>
})";

/// Outputs of three steps, the last of which is captured or replayed; before it the state moves, its old memory is
/// given back, and its value is the first one again. Empty and the reason in `error` where a step fails.
std::vector<std::string> outputsOfMovedState(const runtime::Artefact &artefact, std::string &error) {
  auto device = runtime::cuda::openStepDevice();
  auto executable = runtime::Executable::load(artefact, {.threads = 1, .device = *device});
  EXPECT_TRUE(executable) << executable.error().message();
  constexpr int64_t bytes = 80 * 2 * 64 * 2;
  auto k = *runtime::TensorStorage::zeros(bytes), q = *runtime::TensorStorage::zeros(bytes);
  for (int64_t i = 0; i < bytes / 2; ++i) {
    k.as<uint16_t>()[i] = static_cast<uint16_t>(0x3f00 + i % 97);
    q.as<uint16_t>()[i] = static_cast<uint16_t>(0x3e80 + i % 89);
  }
  std::vector<std::string> outputs;
  runtime::DeviceMemory memory;
  for (int step = 0; step < 4; ++step) {
    if (step % 3 == 0) { // the first one, and one after a captured one
      auto moved = *(*device)->allocate(bytes);
      memory = moved;
      (void)(*device)->copyIn(memory.address, q.data(), bytes);
    }
    const runtime::ConstTensorRef inputs[] = {k.ref()};
    const runtime::TensorRef states[] = {{memory.address, memory.bytes}};
    auto results = (*executable)->start(inputs, states);
    std::string out(bytes, '\0');
    runtime::Error failed = results ? (*results)->read(0, out.data(), bytes) : results.error();
    if (failed) {
      error = failed.message();
      return {};
    }
    outputs.push_back(std::move(out));
  }
  return outputs;
}

TEST_F(CudaAttention, TensorMapsFollowAStateThatMoves) {
  auto artefact = compile(stateText, "sm_90a");
  ASSERT_TRUE(artefact);
  ASSERT_EQ(launchesOf(artefact->targets[0].plan).size(), 1u);
  std::string error;
  use("h200,late,unchecked");
  std::vector<std::string> outputs = outputsOfMovedState(*artefact, error);
  ASSERT_EQ(outputs.size(), 4u) << error;
  EXPECT_EQ(outputs[0], outputs[2]) << "negated twice";
  EXPECT_NE(outputs[0], outputs[1]);
  EXPECT_EQ(outputs[0], outputs[3]) << "the same values elsewhere";

  use("h200,late,unchecked,stale-maps");
  outputs = outputsOfMovedState(*artefact, error);
  EXPECT_TRUE(outputs.empty() || outputs[0] != outputs[3]) << "a stale tensor map in the graph goes unseen";
}

//===- planted faults ------------------------------------------------------------------------------------------===//

using Change = void (*)(runtime::Plan &plan, std::vector<LaunchCall *> launches);

struct Fault {
  const char *name;
  Change change;
};

const Fault faults[] = {
    {"a head's stride of the keys",
     [](runtime::Plan &, std::vector<LaunchCall *> launches) { launches[0]->mapSlots[1].strides[1] = 2 * 128; }},
    {"a row's stride of the output",
     [](runtime::Plan &, std::vector<LaunchCall *> launches) {
       int64_t stride = 4 * 64; // five heads stand in a row
       std::memcpy(launches[0]->parameters.data() + 3 * 32 + 24, &stride, sizeof stride);
     }},
    {"a workspace without the tail of the last tile",
     [](runtime::Plan &plan, std::vector<LaunchCall *> launches) {
       for (LaunchCall *launch : {launches[1], launches[2]})
         for (const runtime::PointerSlot &slot : launch->pointerSlots)
           if (slot.offset > 256 && plan.buffers[slot.buffer].space == runtime::Space::arena)
             plan.buffers[slot.buffer].bytes = std::min<int64_t>(plan.buffers[slot.buffer].bytes, 5 * 200 * 4);
     }},
    {"keys and values swapped in the gradient of the queries",
     [](runtime::Plan &, std::vector<LaunchCall *> launches) {
       std::swap(launches[1]->mapSlots[2].buffer, launches[1]->mapSlots[3].buffer);
     }},
};

TEST_F(CudaAttention, PlantedFaultsAreCaught) {
  auto sound = compile(attentionGraph(samples[0]), "sm_90a");
  ASSERT_TRUE(sound);
  std::string error;
  auto reference = Reference::make(*captured, inputs());
  ASSERT_TRUE(reference) << reference.error().message();
  expectedLeaks = 0;
  for (const Fault &fault : faults) {
    runtime::Artefact artefact = *sound;
    std::vector<LaunchCall *> launches;
    for (runtime::Instruction &instruction : artefact.targets[0].plan.instructions)
      if (instruction.label.starts_with("flash_attention"))
        launches.push_back(&std::get<LaunchCall>(instruction.call));
    fault.change(artefact.targets[0].plan, launches);
    auto results = run(artefact, "h200,late,unchecked", error, true, true);
    EXPECT_TRUE(!results || !reference->check(*results, tolerance).empty()) << fault.name;
  }
}

} // namespace
} // namespace tcc::test
