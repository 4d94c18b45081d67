// A rank of a test with its GPU of stand-ins: the environment, a session as openStepDevice makes it, and numbers on the
// device.
#pragma once

#include "runtime/device/cuda/nccl_ranks.h"
#include "tests/cuda_machine/machine_state.h"
#include "tests/runtime/process_ranks.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace tcc::nccl {

using runtime::test::ProcessRanks;
using Host = std::shared_ptr<ProcessRanks>;

/// What a process must see before it opens the stand-ins. `streams`: words of TCC_CUDA_MACHINE; `nccl`: words of
/// TCC_NCCL_MACHINE.
inline void useStandIns(const std::string &streams = "late", const std::string &nccl = "") {
  setenv("TCC_CUDA_DRIVER", TCC_MACHINE_CUDA, 1);
  setenv("TCC_NVRTC", TCC_MACHINE_NVRTC, 1);
  setenv("TCC_CUBLASLT", TCC_MACHINE_CUBLASLT, 1);
  setenv("TCC_NCCL", TCC_MACHINE_NCCL, 1);
  setenv("TCC_CACHE_DIR", "off", 1);
  setenv("TCC_CUDA_MACHINE", (streams + ",devices=8").c_str(), 1);
  setenv("TCC_NCCL_MACHINE", nccl.c_str(), 1);
}

struct Gpu {
  runtime::cuda::Session session;
  std::shared_ptr<runtime::Ranks> ranks; ///< null where joining failed
  std::string error;                     ///< why

  explicit Gpu(const Host &host, int ordinal = -1) {
    ordinal = ordinal < 0 ? static_cast<int>(host->rank()) : ordinal;
    session.name = "cuda:" + std::to_string(ordinal);
    session.device = runtime::cuda::Device::open(ordinal);
    session.stream = session.device->makeStream();
    auto joined = runtime::cuda::joinNcclRanks(session, host);
    if (joined)
      ranks = *joined;
    else
      error = joined.error().message();
  }
  ~Gpu() { ranks = nullptr; }

  runtime::cuda::Buffer floats(const std::vector<float> &values) {
    runtime::cuda::Buffer buffer = session.device->allocate(values.size() * 4);
    write(buffer, values);
    session.stream.synchronize();
    return buffer;
  }
  /// Without waiting for it; the host's memory is read by the call.
  void write(const runtime::cuda::Buffer &buffer, const std::vector<float> &values) {
    session.stream.copyToDevice(buffer.address(), values.data(), values.size() * 4);
  }
  std::vector<float> read(const runtime::cuda::Buffer &buffer) {
    std::vector<float> values(buffer.size() / 4);
    session.stream.copyToHost(values.data(), buffer.address(), buffer.size());
    session.stream.synchronize();
    return values;
  }
  static char *at(const runtime::cuda::Buffer &buffer, size_t bytes = 0) {
    return reinterpret_cast<char *>(buffer.address() + bytes);
  }
};

/// The number of a collective that has started.
inline runtime::RankWork started(const runtime::Expected<runtime::RankWork> &work) {
  EXPECT_TRUE(work) << work.error().message();
  return work ? *work : 0;
}

inline void expectSuccess(const runtime::Error &error) {
  EXPECT_FALSE(error) << error.message();
}

} // namespace tcc::nccl
