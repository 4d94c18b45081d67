// A step for a GPU in a library: on the stand-ins it trains as the function does there.
#include "c_api/tcc_runtime.h"
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include "tests/library/small_step.h"
#include <cstring>

namespace tcc {
namespace {

using GpuLibrary = machine::MachineTest;
using test::SmallStep;

TEST_F(GpuLibrary, TrainsAsTheFunctionDoes) {
  const test::TemporaryFolder folder;
  const std::string library = folder / "step.so", states = folder / "states.safetensors";
  std::vector<float> expected;
  constexpr int steps = 3;
  {
    auto device = runtime::cuda::openStepDevice();
    ASSERT_TRUE(device) << device.error().message();
    SmallStep step(*device);
    step.function.exportLibrary(library, SmallStep::arguments(0));
    step.function.save(states);
    for (int i = 0; i < steps; ++i)
      expected.push_back(static_cast<float>(step.function.call(SmallStep::arguments(i))[0].item()));
  }
  tcc_program *program = nullptr;
  tcc_step *step = nullptr;
  ASSERT_EQ(tcc_open(library.c_str(), &program), TCC_OK) << tcc_last_error();
  const tcc_options wrong{sizeof wrong, 0, 0, "cpu"};
  EXPECT_EQ(tcc_create(program, &wrong, &step), TCC_FAILED);
  EXPECT_HAS(std::string(tcc_last_error()), "it is for another kind of device");
  ASSERT_EQ(tcc_create(program, nullptr, &step), TCC_OK) << tcc_last_error();
  EXPECT_EQ(std::string(tcc_target(step)).substr(0, 5), "cuda:");
  EXPECT_EQ(tcc_state_data(step, "w1"), nullptr) << "it lies on the device";
  ASSERT_EQ(tcc_load_states(step, states.c_str()), TCC_OK) << tcc_last_error();
  for (int i = 0; i < steps; ++i) {
    std::vector<Array> arguments = SmallStep::arguments(i);
    std::vector<const void *> inputs;
    for (const Array &array : arguments)
      inputs.push_back(array.rawForReading());
    float loss = 0;
    void *outputs[] = {&loss, nullptr};
    ASSERT_EQ(tcc_run(step, inputs.data(), 4, outputs, 2), TCC_OK) << tcc_last_error();
    EXPECT_EQ(loss, expected[static_cast<size_t>(i)]);
  }
  const std::string saved = folder / "saved.safetensors";
  EXPECT_EQ(tcc_save_states(step, saved.c_str()), TCC_OK) << tcc_last_error();
  EXPECT_NE(test::readAll(saved), test::readAll(states));
  tcc_destroy(step);
  tcc_close(program);
}

} // namespace
} // namespace tcc
