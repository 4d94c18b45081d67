// The CPU, on which every padding pays.
#pragma once
#include "codegen/cpu/target.h"

namespace tcc::test {

class EagerPadding : public cpu::CpuTarget {
public:
  explicit EagerPadding(PaddingModel::Gain gain = {1e6, 1e6}, int64_t enough = 64, const cpu::EmitOptions &options = {},
                        int threads = 1)
      : CpuTarget(options, threads), data(CpuTarget::model()) {
    data.padding.wide = data.padding.narrow = gain;
    data.padding.enough = enough;
  }
  const TargetModel &model() const override { return data; }

private:
  TargetModel data;
};

} // namespace tcc::test
