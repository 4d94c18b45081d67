// Stream capture and graphs: what a replay does, what a capture refuses and by which code.
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_machine/samples.h"

#include <functional>

namespace tcc::machine {
namespace {

using Values = std::vector<float>;

class MachineCapture : public MachineTest {};

TEST_F(MachineCapture, AReplaySeesNewContentsAndTheArgumentsOfTheCapture) {
  for (const char *settings : {"late", "early", "random"}) {
    use(settings);
    Loaded loaded;
    cuda::Buffer data = loaded.device->allocate(512), out = loaded.device->allocate(512);
    cuda::PinnedBuffer pinned = loaded.device->allocatePinned(512);
    loaded.stream.beginCapture();
    loaded.stream.copyToDevice(data.address(), pinned.data(), 512);
    {
      float argument = 128;
      int count = static_cast<int>(argument);
      loaded.launch(loaded.stream, "add_one", 1, data.address(), count);
      count = 0; // too late to matter
    }
    loaded.stream.copyOnDevice(out.address(), data.address(), 512);
    EXPECT_EQ(counters().launches, 0u) << "a capture runs nothing";
    cuda::Graph graph = loaded.stream.endCapture();
    EXPECT_EQ(counters().operations, 0u);
    for (float value : {1.0f, 2.0f, 10.0f}) {
      for (float &element : pinned.as<float>())
        element = value;
      loaded.stream.launch(graph);
      loaded.stream.synchronize();
      EXPECT_EQ(loaded.read(loaded.stream, out.address(), 128), Values(128, value + 1)) << settings;
    }
    EXPECT_EQ(counters().captures, 1u);
    EXPECT_EQ(counters().instantiations, 1u);
    EXPECT_EQ(counters().graphLaunches, 3u);
    EXPECT_EQ(counters().launches, 3u);
  }
}

/// add_one on each of two branches after a fill, joined at the end; without the join the capture is refused.
TEST_F(MachineCapture, ForksMustBeJoined) {
  for (bool joined : {true, false}) {
    Loaded loaded;
    cuda::Stream other = loaded.device->makeStream();
    cuda::Event forked = loaded.device->makeEvent(false), done = loaded.device->makeEvent(false);
    cuda::Buffer first = loaded.device->allocate(512), second = loaded.device->allocate(512);
    loaded.stream.beginCapture();
    loaded.launch(loaded.stream, "fill", 1, first.address(), 1.0f, 128);
    loaded.launch(loaded.stream, "fill", 1, second.address(), 2.0f, 128);
    loaded.stream.record(forked);
    other.waitFor(forked);
    loaded.launch(other, "add_one", 1, second.address(), 128);
    other.record(done);
    loaded.launch(loaded.stream, "add_one", 1, first.address(), 128);
    if (joined)
      loaded.stream.waitFor(done);
    cuda::Graph graph;
    std::string error = errorOf([&] { graph = loaded.stream.endCapture(); });
    if (!joined) {
      EXPECT_TRUE(names(error, "ending the capture of a step: CUDA_ERROR_STREAM_CAPTURE_UNJOINED")) << error;
      loaded.stream.synchronize(); // the stream can be used again
      continue;
    }
    EXPECT_EQ(error, "no error");
    loaded.stream.launch(graph);
    EXPECT_EQ(loaded.read(loaded.stream, first.address(), 128), Values(128, 2.0f));
    EXPECT_EQ(loaded.read(loaded.stream, second.address(), 128), Values(128, 3.0f));
  }
}

/// Two branches on one buffer: with late streams the later one runs first.
TEST_F(MachineCapture, AMissingEdgeShowsOnLateStreams) {
  std::vector<Values> results;
  for (const char *settings : {"late", "early"}) {
    use(settings);
    Loaded loaded;
    cuda::Stream other = loaded.device->makeStream();
    cuda::Event forked = loaded.device->makeEvent(false), done = loaded.device->makeEvent(false);
    cuda::Buffer data = loaded.device->allocate(512);
    loaded.stream.beginCapture();
    loaded.stream.record(forked);
    other.waitFor(forked);
    loaded.launch(loaded.stream, "fill", 1, data.address(), 1.0f, 128);
    loaded.launch(other, "add_one", 1, data.address(), 128);
    other.record(done);
    loaded.stream.waitFor(done);
    loaded.stream.launch(loaded.stream.endCapture());
    results.push_back(loaded.read(loaded.stream, data.address(), 128));
  }
  EXPECT_EQ(results[0], Values(128, 1.0f));
  EXPECT_EQ(results[1], Values(128, 2.0f));
}

struct Refusal {
  std::string name;
  std::function<void(Loaded &, cuda::Event &outside, cuda::Event &inside, cuda::Buffer &, cuda::PinnedBuffer &)> action;
  std::string code;
};

TEST_F(MachineCapture, WhatACaptureForbids) {
  float host = 0;
  using L = Loaded;
  using E = cuda::Event;
  using B = cuda::Buffer;
  using P = cuda::PinnedBuffer;
  const std::vector<Refusal> refusals = {
      {"waiting for the stream", [](L &l, E &, E &, B &, P &) { l.stream.synchronize(); }, "UNSUPPORTED"},
      {"waiting for another stream", [](L &l, E &, E &, B &, P &) { l.device->makeStream().synchronize(); },
       "UNSUPPORTED"},
      {"allocating", [](L &l, E &, E &, B &, P &) { l.device->allocate(16); }, "UNSUPPORTED"},
      {"allocating pinned memory", [](L &l, E &, E &, B &, P &) { l.device->allocatePinned(16); }, "UNSUPPORTED"},
      {"loading", [](L &l, E &, E &, B &, P &) { l.device->load(std::string("cubin")); }, "UNSUPPORTED"},
      {"copying from pageable memory", [&](L &l, E &, E &, B &b, P &) { l.stream.copyToDevice(b.address(), &host, 4); },
       "UNSUPPORTED"},
      {"copying to pageable memory", [&](L &l, E &, E &, B &b, P &) { l.stream.copyToHost(&host, b.address(), 4); },
       "UNSUPPORTED"},
      {"copying at once",
       [&](L &l, E &, E &, B &b, P &p) {
         auto copy = l.function<int(cuda::DevicePointer, const void *, std::size_t)>("cuMemcpyHtoD_v2");
         l.device->driver().check(copy(b.address(), p.data(), 4), "copying");
       },
       "UNSUPPORTED"},
      {"asking the stream",
       [](L &l, E &, E &, B &, P &) {
         l.device->driver().check(l.function<int(void *)>("cuStreamQuery")(l.stream.handle()), "asking");
       },
       "UNSUPPORTED"},
      {"waiting for a captured event", [](L &, E &, E &inside, B &, P &) { inside.synchronize(); }, "CAPTURED_EVENT"},
      {"timing a captured event", [](L &, E &outside, E &inside, B &, P &) { inside.millisecondsSince(outside); },
       "CAPTURED_EVENT"},
      {"waiting on the device for outside work", [](L &l, E &outside, E &, B &, P &) { l.stream.waitFor(outside); },
       "ISOLATION"},
      {"beginning again", [](L &l, E &, E &, B &, P &) { l.stream.beginCapture(); }, "ILLEGAL_STATE"},
  };
  for (const Refusal &refusal : refusals) {
    Loaded loaded;
    E outside = loaded.device->makeEvent(), inside = loaded.device->makeEvent();
    B buffer = loaded.device->allocate(512);
    P pinned = loaded.device->allocatePinned(512);
    loaded.stream.record(outside);
    loaded.stream.beginCapture();
    loaded.launch(loaded.stream, "fill", 1, buffer.address(), 1.0f, 128);
    loaded.stream.record(inside);
    std::string error = errorOf([&] { refusal.action(loaded, outside, inside, buffer, pinned); });
    EXPECT_TRUE(names(error, refusal.code)) << refusal.name << ": " << error;
    error = errorOf([&] { loaded.stream.endCapture(); });
    if (refusal.code == "ILLEGAL_STATE")
      EXPECT_EQ(error, "no error");
    else
      EXPECT_TRUE(names(error, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")) << refusal.name << ": " << error;
    loaded.launch(loaded.stream, "fill", 1, buffer.address(), 2.0f, 128);
    EXPECT_EQ(loaded.read(loaded.stream, buffer.address(), 128), Values(128, 2.0f)) << "afterwards all is as before";
  }
}

TEST_F(MachineCapture, EndsOfCapturesAreChecked) {
  Loaded loaded;
  cuda::Stream other = loaded.device->makeStream();
  cuda::Event forked = loaded.device->makeEvent(false), elsewhere = loaded.device->makeEvent(false);
  EXPECT_TRUE(names(errorOf([&] { loaded.stream.endCapture(); }), "CUDA_ERROR_ILLEGAL_STATE"));
  // Ended on the wrong stream
  loaded.stream.beginCapture();
  loaded.stream.record(forked);
  other.waitFor(forked);
  EXPECT_TRUE(names(errorOf([&] { other.endCapture(); }), "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"));
  EXPECT_TRUE(names(errorOf([&] { loaded.stream.endCapture(); }), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
  // Two captures merged
  loaded.stream.beginCapture();
  other.beginCapture();
  loaded.stream.record(elsewhere);
  EXPECT_TRUE(names(errorOf([&] { other.waitFor(elsewhere); }), "CUDA_ERROR_STREAM_CAPTURE_MERGE"));
  EXPECT_TRUE(names(errorOf([&] { loaded.stream.endCapture(); }), "INVALIDATED"));
  EXPECT_TRUE(names(errorOf([&] { other.endCapture(); }), "INVALIDATED"));
  // A relaxed capture allows what does not concern its stream.
  auto begin = loaded.function<int(void *, int)>("cuStreamBeginCapture_v2");
  ASSERT_EQ(begin(loaded.stream.handle(), 2), 0);
  EXPECT_EQ(errorOf([&] { loaded.device->allocate(64); }), "no error");
  EXPECT_EQ(errorOf([&] { other.synchronize(); }), "no error");
  int status = 0;
  EXPECT_EQ(loaded.function<int(void *, int *)>("cuStreamIsCapturing")(loaded.stream.handle(), &status), 0);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(errorOf([&] { loaded.stream.endCapture(); }), "no error");
}

TEST_F(MachineCapture, AGraphWithAStalePointerIsFoundOut) {
  Loaded loaded;
  cuda::Buffer data = loaded.device->allocate(512);
  loaded.stream.beginCapture();
  loaded.launch(loaded.stream, "fill", 1, data.address(), 1.0f, 128);
  cuda::Graph graph = loaded.stream.endCapture();
  loaded.stream.launch(graph);
  loaded.stream.synchronize();
  data = {};
  data = loaded.device->allocate(512); // a driver might give the same address again
  loaded.stream.launch(graph);
  std::string error = errorOf([&] { loaded.stream.synchronize(); });
  EXPECT_TRUE(names(error, "CUDA_ERROR_ILLEGAL_ADDRESS")) << error;
  EXPECT_TRUE(names(error, ", which was freed")) << error;
}

TEST_F(MachineCapture, GraphsAreUpdatedWhereTheirShapeIsTheSame) {
  Loaded loaded;
  const cuda::Driver &driver = loaded.device->driver();
  cuda::Buffer data = loaded.device->allocate(512);
  auto capture = [&](std::vector<float> values) {
    cuda::GraphHandle graph = nullptr;
    driver.check(driver.streamBeginCapture(loaded.stream.handle(), cuda::captureThreadLocal), "beginning");
    for (float value : values)
      loaded.launch(loaded.stream, "fill", 1, data.address(), value, 128);
    driver.check(driver.streamEndCapture(loaded.stream.handle(), &graph), "ending");
    return cuda::Owned<cuda::GraphHandle>(graph, driver.graphDestroy);
  };
  struct {
    int result;
    void *node, *from;
  } outcome;
  auto update = loaded.function<int(cuda::GraphExecHandle, cuda::GraphHandle, void *)>("cuGraphExecUpdate_v2");
  cuda::GraphExecHandle handle = nullptr;
  auto first = capture({1.0f}), second = capture({7.0f}), longer = capture({7.0f, 8.0f});
  driver.check(driver.graphInstantiate(&handle, first.get(), 0), "instantiating");
  cuda::Owned<cuda::GraphExecHandle> executable(handle, driver.graphExecDestroy);
  EXPECT_EQ(update(handle, longer.get(), &outcome), 910);
  EXPECT_EQ(outcome.result, 2);
  EXPECT_EQ(update(handle, second.get(), &outcome), 0);
  driver.check(driver.graphLaunch(handle, loaded.stream.handle()), "launching");
  EXPECT_EQ(loaded.read(loaded.stream, data.address(), 128), Values(128, 7.0f));
}

} // namespace
} // namespace tcc::machine
