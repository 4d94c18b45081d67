// The driver's stand-in through the runtime's Device: launches, streams, events, memory, lost contexts, several
// devices.
#include "runtime/device/cuda/cublaslt.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_machine/samples.h"
#include "tests/cuda_machine/stream_hook.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace tcc::machine {
namespace {

using Values = std::vector<float>;
class MachineDriver : public MachineTest {};

TEST_F(MachineDriver, KernelsRunInEveryMode) {
  for (const char *settings :
       {"late", "early", "random", "checked", "plain", "reverse,early-copies", "shuffled,random-copies,seed=5"}) {
    use(settings);
    Loaded loaded;
    cuda::Buffer in = loaded.device->allocate(1024), out = loaded.device->allocate(1024);
    Values values(256), expected(256);
    for (int i = 0; i < 256; ++i) {
      values[static_cast<std::size_t>(i)] = static_cast<float>(i);
      expected[static_cast<std::size_t>(i)] = static_cast<float>(i / 128 * 128 + 127 - i % 128);
    }
    loaded.stream.copyToDevice(in.address(), values.data(), 1024);
    loaded.launch(loaded.stream, "reversed", 2, in.address(), out.address());
    EXPECT_EQ(loaded.read(loaded.stream, out.address(), 256), expected) << settings;
    EXPECT_EQ(counters().launches, 1u);
    EXPECT_EQ(counters().bytesToDevice, 1024u);
    EXPECT_EQ(counters().bytesToHost, 1024u);
  }
}

TEST_F(MachineDriver, DevicesHaveTheirFigures) {
  use("a100");
  auto device = cuda::Device::open();
  EXPECT_EQ(device->architecture(), "sm_80");
  EXPECT_EQ(device->attribute(cuda::attributeMultiprocessors), 108);
  EXPECT_EQ(device->attribute(cuda::attributeMaxSharedPerBlockOptin), 163 * 1024);
  device.reset();
  use("h200");
  device = cuda::Device::open();
  EXPECT_EQ(device->architecture(), "sm_90a");
  EXPECT_EQ(device->attribute(cuda::attributeMultiprocessors), 132);
  device.reset();
  use("devices=0");
  EXPECT_TRUE(names(errorOf([] { cuda::Device::open(); }), "starting the CUDA driver: CUDA_ERROR_NO_DEVICE"));
  use("lately");
  EXPECT_TRUE(names(errorOf([] { cuda::Device::open(); }), "no setting is called `lately`"));
  use("plain,checked");
  EXPECT_TRUE(names(errorOf([] { cuda::Device::open(); }), "CUDA_ERROR_UNKNOWN"));
}

TEST_F(MachineDriver, ImagesOfOtherArchitecturesAreRefused) {
  use("a100");
  auto device = cuda::Device::open();
  std::string text = tcc::cuda::deviceText(tcc::cuda::Prelude::Portable) + sampleText;
  auto cubin = cuda::Nvrtc::open().compile({"sample.cu", text, "sm_90a", {}}).cubin;
  std::string error = errorOf([&] { device->load(cubin); });
  EXPECT_TRUE(names(error, "the image is for sm_90a, the device has compute capability 8.0: CUDA_ERROR_NO_BINARY"))
      << error;
  EXPECT_TRUE(names(errorOf([&] { device->load(std::string("cubin")); }), "CUDA_ERROR_INVALID_IMAGE"));
}

// What is compiled on one machine and run on another. On the same one NVRTC is chosen by the driver.
TEST_F(MachineDriver, CodeOfANewerCudaIsRefusedByName) {
  const std::string text = tcc::cuda::deviceText(tcc::cuda::Prelude::Portable) + sampleText;
  auto compiled = [&](const char *settings, const char *architecture) {
    use(settings);
    const cuda::CompileResult result = cuda::Nvrtc::open().compile({"sample.cu", text, architecture, {}});
    return result.cubin.empty() ? std::vector<char>(result.ptx.begin(), result.ptx.end()) : result.cubin;
  };
  auto refusal = [&](const char *settings, const std::vector<char> &code) {
    use(settings);
    auto device = cuda::Device::open();
    return errorOf([&] { device->load(code); });
  };
  const std::vector<char> cubin12 = compiled("nvrtc=12080", "sm_90a"), cubin13 = compiled("", "sm_90a"),
                          ptx12 = compiled("nvrtc=12080", "compute_80");
  EXPECT_EQ(refusal("driver=12040", cubin12), "no error");
  EXPECT_EQ(refusal("driver=12080", ptx12), "no error");
  EXPECT_EQ(refusal("", ptx12), "no error");
  const std::string newer = refusal("driver=12040", cubin13), newerPtx = refusal("driver=12040", ptx12);
  EXPECT_TRUE(names(newer, "whose driver is for CUDA 12.4 and takes code of CUDA 12 and older")) << newer;
  EXPECT_TRUE(names(newer, "CUDA_ERROR_INVALID_IMAGE")) << newer;
  EXPECT_TRUE(names(newerPtx, "whose driver is for CUDA 12.4 and takes PTX of CUDA 12.4 and older")) << newerPtx;
  EXPECT_TRUE(names(newerPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")) << newerPtx;
}

TEST_F(MachineDriver, LibrariesThatAreTooNewForTheDriverAreRefusedBeforeTheyAreUsed) {
  use("driver=12040");
  EXPECT_TRUE(names(errorOf([] { cuda::Nvrtc::open(); }), "takes code of CUDA 12 and older"));
  EXPECT_TRUE(names(errorOf([] { cuda::CublasLt::open(); }), "takes code of CUDA 12 and older"));
  use("driver=12040,nvrtc=12080");
  EXPECT_EQ(errorOf([] { Loaded loaded; }), "no error");
  setenv("TCC_CUBLASLT_VERSION", "120805", 1);
  EXPECT_EQ(errorOf([] { cuda::CublasLt::open(); }), "no error");
  unsetenv("TCC_CUBLASLT_VERSION");
}

/// b on one stream follows a on another. `ordered`: by an event.
Values followed(const std::string &settings, bool ordered) {
  setenv("TCC_CUDA_MACHINE", settings.c_str(), 1);
  Loaded loaded;
  cuda::Stream other = loaded.device->makeStream();
  cuda::Event filled = loaded.device->makeEvent();
  cuda::Buffer data = loaded.device->allocate(512), out = loaded.device->allocate(512);
  loaded.stream.setBytes(data.address(), 0, 512);
  loaded.stream.setBytes(out.address(), 0, 512);
  loaded.stream.synchronize();
  loaded.launch(loaded.stream, "fill", 1, data.address(), 3.0f, 128);
  loaded.stream.record(filled);
  if (ordered)
    other.waitFor(filled);
  loaded.launch(other, "copy", 1, data.address(), out.address(), 128);
  Values values = loaded.read(other, out.address(), 128);
  loaded.stream.synchronize();
  return values;
}

TEST_F(MachineDriver, AMissingWaitShowsOnLateStreams) {
  EXPECT_EQ(followed("late", true), Values(128, 3.0f));
  EXPECT_EQ(followed("early", true), Values(128, 3.0f));
  EXPECT_EQ(followed("late", false), Values(128, 0.0f)) << "late: nothing runs that nobody waits for";
  EXPECT_EQ(followed("early", false), Values(128, 3.0f));
  for (int seed = 1; seed < 6; ++seed)
    EXPECT_EQ(followed("random,seed=" + std::to_string(seed), true), Values(128, 3.0f));
}

TEST_F(MachineDriver, PinnedMemoryIsReadWhenTheCopyRunsAndPageableMemoryAtTheCall) {
  for (bool late : {true, false}) {
    use(late ? "late" : "early");
    Loaded loaded;
    cuda::Buffer buffer = loaded.device->allocate(8);
    cuda::PinnedBuffer pinned = loaded.device->allocatePinned(8);
    float pageable = 1.0f;
    pinned.as<float>()[0] = 1.0f;
    loaded.stream.copyToDevice(buffer.address(), pinned.data(), 4);
    loaded.stream.copyToDevice(buffer.address() + 4, &pageable, 4);
    pageable = pinned.as<float>()[0] = 2.0f;
    EXPECT_EQ(loaded.read(loaded.stream, buffer.address(), 2), (Values{late ? 2.0f : 1.0f, 1.0f}));
    loaded.stream.copyToHost(pinned.data(), buffer.address() + 4, 4);
    EXPECT_EQ(pinned.as<float>()[0], late ? 2.0f : 1.0f) << "the copy has run " << (late ? "early" : "late");
    loaded.stream.synchronize();
    EXPECT_EQ(pinned.as<float>()[0], 1.0f);
  }
}

TEST_F(MachineDriver, EventsTellTheirTimeAndProgramsThatPollGetOn) {
  Loaded loaded;
  auto query = loaded.function<int(void *)>("cuEventQuery");
  cuda::Event start = loaded.device->makeEvent(), stop = loaded.device->makeEvent();
  cuda::Buffer data = loaded.device->allocate(512);
  EXPECT_TRUE(names(errorOf([&] { stop.millisecondsSince(start); }), "CUDA_ERROR_INVALID_HANDLE"));
  loaded.stream.record(start);
  loaded.launch(loaded.stream, "fill", 1, data.address(), 1.0f, 128);
  loaded.stream.record(stop);
  EXPECT_TRUE(names(errorOf([&] { stop.millisecondsSince(start); }), "CUDA_ERROR_NOT_READY"));
  auto streamQuery = loaded.function<int(void *)>("cuStreamQuery");
  EXPECT_EQ(streamQuery(loaded.stream.handle()), 600);
  EXPECT_EQ(streamQuery(loaded.stream.handle()), 600);
  EXPECT_EQ(streamQuery(loaded.stream.handle()), 600);
  EXPECT_EQ(streamQuery(loaded.stream.handle()), 0);
  stop.synchronize();
  EXPECT_GE(stop.millisecondsSince(start), 0.0f);
  EXPECT_NE(query(nullptr), 0);
}

TEST_F(MachineDriver, AnAccessOutsideIsCaughtAndLosesTheContext) {
  for (const char *settings : {"checked", "unchecked", "early,checked"}) {
    use(settings);
    {
      Loaded loaded;
      // The guard page lies after the next 256 bytes; the checks see the first byte.
      cuda::Buffer data = loaded.device->allocate(512);
      std::string first;
      first = errorOf([&] {
        loaded.launch(loaded.stream, "beyond", 1, data.address(), 128);
        loaded.stream.synchronize();
      });
      EXPECT_TRUE(names(first, "CUDA_ERROR_ILLEGAL_ADDRESS")) << first;
      EXPECT_TRUE(names(first, "beyond: " + placeOf("out[n +") + ": out of bounds: ")) << first;
      EXPECT_TRUE(names(first, "of `allocation ")) << first;
      std::string later = errorOf([&] { loaded.device->allocate(16); });
      EXPECT_TRUE(names(later, "allocating 16 bytes on Emulated H200: CUDA_ERROR_ILLEGAL_ADDRESS")) << later;
      EXPECT_TRUE(names(errorOf([&] { loaded.launch(loaded.stream, "nothing", 1); }), "ILLEGAL_ADDRESS"));
      EXPECT_EQ(counters().lostContexts, 1u);
    }
    Loaded again;
    cuda::Buffer data = again.device->allocate(512);
    again.launch(again.stream, "fill", 1, data.address(), 1.0f, 128);
    EXPECT_EQ(again.read(again.stream, data.address(), 128), Values(128, 1.0f)) << "a fresh context works";
  }
}

TEST_F(MachineDriver, ARaceIsAFailedLaunchWhereAccessesAreChecked) {
  for (bool checked : {true, false}) {
    use(checked ? "checked" : "");
    Loaded loaded;
    cuda::Buffer data = loaded.device->allocate(1024);
    loaded.stream.setBytes(data.address(), 0, 1024);
    loaded.launch(loaded.stream, "unordered", 1, data.address(), data.address() + 512);
    std::string error = errorOf([&] { loaded.stream.synchronize(); });
    EXPECT_EQ(names(error, "CUDA_ERROR_LAUNCH_FAILED"), checked) << error;
    EXPECT_EQ(names(report(), placeOf("out[thread_x()] = row") + ": race: shared memory"), checked) << report();
  }
}

TEST_F(MachineDriver, LaunchesThatADeviceRefusesAreRefusedAtTheCall) {
  Loaded loaded;
  cuda::Kernel kernel = loaded.module.kernel("nothing");
  EXPECT_TRUE(names(errorOf([&] { kernel.launch(loaded.stream, {.grid = {1, 1, 1}, .block = {64, 1, 1}}, {}); }),
                    "CUDA_ERROR_INVALID_VALUE (invalid argument: kernel `nothing`: a block of 64 threads; the kernel "
                    "allows 32)"));
  EXPECT_TRUE(names(errorOf([&] { kernel.launch(loaded.stream, {.block = {32, 1, 1}, .sharedBytes = 50000}, {}); }),
                    "it was allowed 49152"));
  EXPECT_TRUE(names(errorOf([&] {
                      kernel.launch(loaded.stream, {.grid = {3, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}}, {});
                    }),
                    "CUDA_ERROR_INVALID_CLUSTER_SIZE"));
  EXPECT_TRUE(names(errorOf([&] { loaded.module.kernel("missing"); }), "CUDA_ERROR_NOT_FOUND"));
  EXPECT_TRUE(names(errorOf([&] { loaded.module.kernel("nothing", 228 * 1024); }), "a block has at most 232448"));
  loaded.launch(loaded.stream, "nothing", 1);
  loaded.stream.synchronize();
  EXPECT_EQ(counters().launches, 1u);
}

TEST_F(MachineDriver, MemoryIsLimitedGuardedAndCounted) {
  use("memory=4096");
  auto device = cuda::Device::open();
  EXPECT_EQ(device->totalMemory(), 4096u);
  cuda::Buffer first = device->allocate(3000);
  std::string error = errorOf([&] { device->allocate(2000); });
  EXPECT_TRUE(names(error, "CUDA_ERROR_OUT_OF_MEMORY (out of memory: 2000 bytes beside 3000 in use; the device has "
                           "4096)"))
      << error;
  first = {};
  first = device->allocate(2000);
  EXPECT_EQ(counters().liveBytes, 2000u);
  EXPECT_EQ(counters().peakBytes, 3000u);
  cuda::Stream stream = device->makeStream();
  char bytes[4] = {};
  EXPECT_TRUE(names(errorOf([&] { stream.copyToDevice(first.address() + 1997, bytes, 4); }),
                    "which do not lie in one live allocation"));
  EXPECT_DEATH(*reinterpret_cast<volatile char *>(first.address()) = 1, "host code touches device memory: `allocation");
}

TEST_F(MachineDriver, WorkOnFreedMemoryIsFoundOut) {
  Loaded loaded;
  cuda::Buffer data = loaded.device->allocate(512);
  loaded.launch(loaded.stream, "fill", 1, data.address(), 1.0f, 128);
  data = {};
  std::string error = errorOf([&] { loaded.stream.synchronize(); });
  EXPECT_TRUE(names(error, "CUDA_ERROR_ILLEGAL_ADDRESS")) << error;
  EXPECT_TRUE(names(error, "of device 0`, which was freed")) << error;
}

TEST_F(MachineDriver, WhatIsReleasedTwiceOrNeverIsCounted) {
  auto device = cuda::Device::open();
  const cuda::Driver &driver = device->driver();
  cuda::DevicePointer kept = 0, twice = 0;
  cuda::StreamHandle stream = nullptr;
  EXPECT_EQ(driver.memAlloc(&kept, 64), 0);
  EXPECT_EQ(driver.memAlloc(&twice, 64), 0);
  EXPECT_EQ(driver.streamCreate(&stream, 1), 0);
  EXPECT_EQ(driver.memFree(twice), 0);
  EXPECT_EQ(driver.memFree(twice), 1);
  EXPECT_EQ(driver.memFree(kept + 4), 1);
  device.reset();
  EXPECT_TRUE(names(report(), "device 0 is closed with 1 allocation ")) << report();
  EXPECT_TRUE(names(report(), ", 1 stream\n")) << report();
  expectedLeaks = 2;
  expectedInvalidReleases = 2;
}

TEST_F(MachineDriver, TwoDevicesDoNotSeeEachOther) {
  for (const char *settings : {"devices=2,checked", "devices=2"}) {
    use(settings);
    EXPECT_TRUE(names(errorOf([] { cuda::Device::open(2); }), "the driver shows 2"));
    Loaded one(0);
    cuda::Buffer first = one.device->allocate(512);
    one.launch(one.stream, "fill", 1, first.address(), 1.0f, 128);
    {
      Loaded two(1);
      cuda::Buffer second = two.device->allocate(512);
      two.launch(two.stream, "fill", 1, second.address(), 2.0f, 128);
      EXPECT_EQ(two.read(two.stream, second.address(), 128), Values(128, 2.0f));
      std::string wrongStream = errorOf([&] { two.launch(one.stream, "nothing", 1); });
      EXPECT_TRUE(names(wrongStream, "CUDA_ERROR_INVALID_HANDLE")) << wrongStream;
      two.launch(two.stream, "copy", 1, first.address(), second.address(), 128);
      std::string error = errorOf([&] { two.stream.synchronize(); });
      EXPECT_TRUE(names(error, "CUDA_ERROR_ILLEGAL_ADDRESS")) << settings << error;
    }
    one.device->makeCurrent();
    EXPECT_EQ(one.read(one.stream, first.address(), 128), Values(128, 1.0f)) << "the other device's loss is not ours";
  }
}

TEST_F(MachineDriver, TwoThreadsDriveTwoDevices) {
  use("devices=2");
  Values results[2];
  auto work = [&](int ordinal) {
    Loaded loaded(ordinal);
    cuda::Buffer data = loaded.device->allocate(512);
    loaded.launch(loaded.stream, "fill", 1, data.address(), static_cast<float>(10 * ordinal), 128);
    for (int i = 0; i < 20; ++i) {
      loaded.launch(loaded.stream, "add_one", 1, data.address(), 128);
      if (i % 3 == 0)
        loaded.stream.synchronize();
    }
    results[ordinal] = loaded.read(loaded.stream, data.address(), 128);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(results[0], Values(128, 20.0f));
  EXPECT_EQ(results[1], Values(128, 30.0f));
  EXPECT_EQ(counters().launches, 42u);
}

TEST_F(MachineDriver, AThreadNeedsItsContext) {
  Loaded loaded;
  cuda::Buffer data = loaded.device->allocate(512);
  std::string without, with;
  std::thread([&] {
    without = errorOf([&] { loaded.launch(loaded.stream, "fill", 1, data.address(), 5.0f, 128); });
    loaded.device->makeCurrent();
    with = errorOf([&] {
      loaded.launch(loaded.stream, "fill", 1, data.address(), 5.0f, 128);
      loaded.stream.synchronize();
    });
  }).join();
  EXPECT_TRUE(names(without, "CUDA_ERROR_INVALID_CONTEXT")) << without;
  EXPECT_EQ(with, "no error");
  EXPECT_EQ(loaded.read(loaded.stream, data.address(), 128), Values(128, 5.0f));
}

TEST_F(MachineDriver, KernelsSeePinnedMemory) {
  use("checked");
  Loaded loaded;
  cuda::PinnedBuffer host = loaded.device->allocatePinned(512);
  loaded.launch(loaded.stream, "fill", 1, host.deviceAddress(), 4.0f, 128);
  loaded.stream.synchronize();
  EXPECT_EQ(host.as<float>()[127], 4.0f);
}

/// What another stand-in puts on a stream: doubles a float.
struct Doubling {
  float *value;
  int runs = 0, destroyed = 0;
  static void run(void *self) {
    auto &doubling = *static_cast<Doubling *>(self);
    ++doubling.runs;
    if (tccStreamHook()->isDeviceMemory(doubling.value, 4))
      *doubling.value *= 2;
    else
      tccStreamHook()->fault("not the device's memory");
  }
  static void destroy(void *self) { ++static_cast<Doubling *>(self)->destroyed; }
  int give(const cuda::Stream &stream) { return tccStreamHook()->enqueue(stream.handle(), run, this, destroy); }
};

TEST_F(MachineDriver, WorkOfOtherStandInsIsAnOperationOfTheStream) {
  for (const char *settings : {"late", "early"}) {
    use(settings);
    Loaded loaded;
    cuda::Buffer data = loaded.device->allocate(512);
    Doubling doubling{reinterpret_cast<float *>(data.address())}, captured = doubling, wrong{nullptr};
    loaded.launch(loaded.stream, "fill", 1, data.address(), 3.0f, 128);
    EXPECT_EQ(doubling.give(loaded.stream), 0);
    EXPECT_EQ(loaded.read(loaded.stream, data.address(), 1), Values{6.0f});
    EXPECT_EQ(doubling.destroyed, 1);
    loaded.stream.beginCapture();
    EXPECT_EQ(captured.give(loaded.stream), 0);
    {
      cuda::Graph graph = loaded.stream.endCapture();
      EXPECT_EQ(captured.runs, 0);
      loaded.stream.launch(graph);
      loaded.stream.launch(graph);
      EXPECT_EQ(loaded.read(loaded.stream, data.address(), 1), Values{24.0f});
    }
    EXPECT_EQ(captured.runs, 2);
    EXPECT_EQ(captured.destroyed, 1);
    EXPECT_EQ(wrong.give(loaded.stream), 0);
    std::string error = errorOf([&] { loaded.stream.synchronize(); });
    EXPECT_TRUE(names(error, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered: not the device's "
                             "memory)"))
        << error;
    EXPECT_EQ(doubling.give(loaded.stream), 700) << "a lost device takes nothing";
    EXPECT_EQ(doubling.destroyed, 2);
  }
}

TEST_F(MachineDriver, CountersCanGoToAFile) {
  std::string path = testing::TempDir() + "/tcc_machine_counters.json";
  setenv("TCC_CUDA_MACHINE_COUNTERS", path.c_str(), 1);
  EXPECT_EXIT(
      {
        cuda::Device::open()->allocate(100);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("TCC_CUDA_MACHINE_COUNTERS");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(names(text.str(), "{\"allocations\": 1, \"liveBuffers\": 0,")) << text.str();
  EXPECT_TRUE(names(text.str(), "\"peakBytes\": 100,")) << text.str();
}

} // namespace
} // namespace tcc::machine
