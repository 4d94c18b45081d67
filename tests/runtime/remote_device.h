// A device with memory of its own, as far as a test needs one: a CPU whose copies are counted. Steps run when
// they are started; their outputs are copied out then.
#pragma once
#include "runtime/device/device.h"
#include <algorithm>
#include <cstring>

namespace tcc::runtime::test {

class RemoteDevice final : public Device {
public:
  int64_t bytesIn = 0, bytesOut = 0;          ///< by copyIn and copyOut
  std::string lost;                           ///< why it is closed, if it is
  bool forgetsIn = false, forgetsOut = false; ///< faults: copies that are counted and not made

  std::string_view kind() const override { return "remote"; }
  const std::string &name() const override { return label; }
  bool sharesHostMemory() const override { return false; }
  int64_t memoryBytes() const override { return cpu->memoryBytes(); }
  int64_t allocatedBytes() const override { return cpu->allocatedBytes(); }
  bool isClosed() const override { return !lost.empty(); }
  Error accepts(const TargetCode &code) const override { return cpu->accepts(code); }
  Expected<DeviceMemory> allocate(int64_t bytes) override {
    if (isClosed())
      return Error(lost);
    return cpu->allocate(bytes);
  }
  Error copyIn(char *to, const void *from, int64_t bytes) override {
    bytesIn += bytes;
    return isClosed() ? Error(lost) : forgetsIn ? Error::success() : cpu->copyIn(to, from, bytes);
  }
  Error copyOut(void *to, const char *from, int64_t bytes) override {
    bytesOut += bytes;
    return isClosed() ? Error(lost) : forgetsOut ? Error::success() : cpu->copyOut(to, from, bytes);
  }
  Expected<char *> arena(int64_t bytes, int64_t alignment) override { return cpu->arena(bytes, alignment); }

  Expected<std::unique_ptr<Program>> load(const Plan &plan, std::span<const std::string> code,
                                          const ProgramOptions &options) override {
    auto program = cpu->load(plan, code, options);
    if (!program)
      return program.error();
    return std::unique_ptr<Program>(new RemoteProgram(*this, plan, std::move(*program)));
  }

private:
  struct RemoteOutputs final : StepOutputs {
    std::vector<std::string> outputs;
    Error read(size_t index, void *to, int64_t bytes) override {
      std::memcpy(to, outputs.at(index).data(), static_cast<size_t>(bytes));
      return Error::success();
    }
  };

  class RemoteProgram final : public Program {
  public:
    RemoteProgram(RemoteDevice &device, const Plan &plan, std::unique_ptr<Program> inner)
        : device(device), plan(plan), inner(std::move(inner)) {}
    Error place(const Placement &placement) override {
      inputs.assign(placement.inputs.begin(), placement.inputs.end());
      outputs.assign(placement.outputs.begin(), placement.outputs.end());
      return inner->place(placement);
    }
    Error run(Profiler *profiler) override { return device.isClosed() ? Error(device.lost) : inner->run(profiler); }
    Error runPart(size_t begin, size_t end, Profiler *profiler) override {
      return device.isClosed() ? Error(device.lost) : inner->runPart(begin, end, profiler);
    }
    Error finish() override { return Error::success(); }
    Error sendInputs(std::span<const ConstTensorRef> given) override {
      for (size_t i = 0; i < given.size(); ++i)
        if (given[i].bytes > 0)
          std::memcpy(inputs[i], given[i].data, static_cast<size_t>(given[i].bytes));
      return Error::success();
    }
    Expected<std::shared_ptr<StepOutputs>> receiveOutputs(size_t count) override {
      auto received = std::make_shared<RemoteOutputs>();
      for (size_t i = 0; i < count; ++i)
        received->outputs.emplace_back(outputs[i], static_cast<size_t>(plan.outputs[i].bytes()));
      return std::shared_ptr<StepOutputs>(received);
    }
    int64_t ownBytes() const override { return inner->ownBytes(); }
    int64_t arenaTouched() const override { return inner->arenaTouched(); }

  private:
    RemoteDevice &device;
    const Plan &plan;
    std::unique_ptr<Program> inner;
    std::vector<char *> inputs, outputs;
  };

  std::shared_ptr<Device> cpu = makeCpuDevice();
  std::string label = "remote";
};

} // namespace tcc::runtime::test
