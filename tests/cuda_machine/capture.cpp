// Stream capture: what is recorded, what is refused and by which code, after the programming guide's and the driver's
// documentation.
#include "tests/cuda_machine/state.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace tcc::machine {
namespace {

constexpr int modeGlobal = 0, modeRelaxed = 2;

void addEdges(std::vector<int> &frontier, const std::vector<int> &more) {
  for (int node : more)
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end())
      frontier.push_back(node);
}

} // namespace

void State::invalidate(Capture &capture, const std::string &why) {
  if (!capture.invalid)
    capture.why = why;
  capture.invalid = true;
}

void State::refuseWhileCapturing(const char *symbol) {
  int threadMode = threadState().captureMode;
  if (threadMode == modeRelaxed)
    return;
  bool refused = false;
  for (const std::weak_ptr<Capture> &weak : captures)
    if (auto capture = weak.lock(); capture && !capture->ended && capture->mode != modeRelaxed) {
      bool own = capture->thread == std::this_thread::get_id();
      if (!own && (threadMode != modeGlobal || capture->mode != modeGlobal))
        continue;
      invalidate(*capture, symbol);
      refused = true;
    }
  if (refused)
    fail(captureUnsupported, std::string(symbol) + " while a stream is capturing");
}

void State::beginCapture(const std::shared_ptr<Stream> &stream, int mode) {
  if (mode < modeGlobal || mode > modeRelaxed)
    fail(invalidValue, "capture mode " + std::to_string(mode));
  if (stream == contextOf(*stream)->legacy)
    fail(captureUnsupported, "the legacy stream cannot be captured");
  if (stream->capture)
    fail(illegalState, "the stream is capturing already");
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->members.push_back(stream);
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->frontier.clear();
  captures.erase(std::remove_if(captures.begin(), captures.end(), [](const auto &weak) { return weak.expired(); }),
                 captures.end());
  captures.push_back(capture);
}

std::shared_ptr<Graph> State::endCapture(const std::shared_ptr<Stream> &stream) {
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    fail(illegalState, "the stream is not capturing");
  if (capture->mode != modeRelaxed && capture->thread != std::this_thread::get_id())
    fail(captureWrongThread, "the capture was begun on another thread");
  if (capture->origin.lock() != stream) {
    invalidate(*capture, "cuStreamEndCapture on another stream than cuStreamBeginCapture");
    fail(captureUnmatched, capture->why);
  }
  std::set<int> joined(stream->frontier.begin(), stream->frontier.end());
  for (int i = static_cast<int>(capture->nodes.size()) - 1; i >= 0; --i)
    if (joined.count(i))
      joined.insert(capture->nodes[static_cast<std::size_t>(i)].after.begin(),
                    capture->nodes[static_cast<std::size_t>(i)].after.end());
  for (const std::weak_ptr<Stream> &member : capture->members)
    if (auto one = member.lock()) {
      one->capture = nullptr;
      one->frontier.clear();
    }
  capture->ended = true;
  if (capture->invalid)
    fail(captureInvalidated, "the capture was invalidated by " + capture->why);
  if (joined.size() != capture->nodes.size())
    fail(captureUnjoined, "another stream's work was captured and no event joins it to the first stream");
  auto graph = std::make_shared<Graph>();
  graph->nodes = capture->nodes;
  ++counters().captures;
  return graph;
}

void State::captureWork(Stream &stream, std::shared_ptr<Work> work) {
  Capture &capture = *stream.capture;
  if (capture.invalid)
    fail(captureInvalidated, "the capture was invalidated by " + capture.why);
  capture.nodes.push_back({std::move(work), stream.frontier});
  stream.frontier = {static_cast<int>(capture.nodes.size()) - 1};
}

void State::recordEvent(Event &event, const std::shared_ptr<Stream> &stream) {
  if (event.context != stream->context)
    fail(invalidHandle, "the event and the stream belong to different devices");
  if (stream->capture) {
    if (stream->capture->invalid)
      fail(captureInvalidated, "the capture was invalidated by " + stream->capture->why);
    event.record = nullptr;
    event.capture = stream->capture;
    event.frontier = stream->frontier;
    return;
  }
  auto record = std::make_shared<Event::Record>();
  record->ticket = {stream, stream->given + 1};
  give(stream, Work::Kind::Marker, "event", [record] {
    std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now().time_since_epoch();
    record->time = now.count();
    return Failure{};
  });
  event.record = record;
  event.capture = nullptr;
}

void State::waitForEvent(const std::shared_ptr<Stream> &stream, Event &event) {
  if (stream->capture && stream->capture->invalid)
    fail(captureInvalidated, "the capture was invalidated by " + stream->capture->why);
  if (event.capture) {
    if (event.capture->ended)
      fail(capturedEvent, "the event was recorded in a capture that has ended");
    if (event.capture->invalid)
      fail(captureInvalidated, "the capture was invalidated by " + event.capture->why);
    if (stream->capture && stream->capture != event.capture) {
      invalidate(*stream->capture, "a wait for an event of another capture");
      invalidate(*event.capture, "a wait by another capture");
      fail(captureMerge, "the event was recorded in another capture");
    }
    if (stream == contextOf(*stream)->legacy) {
      invalidate(*event.capture, "a wait of the legacy stream");
      fail(captureImplicit, "the legacy stream waits for an event of a capture");
    }
    if (!stream->capture) {
      stream->capture = event.capture;
      stream->frontier.clear();
      event.capture->members.push_back(stream);
    }
    addEdges(stream->frontier, event.frontier);
    return;
  }
  if (!event.record)
    return; // an event never recorded holds no work
  if (stream->capture) {
    invalidate(*stream->capture, "a wait for an event from outside the capture");
    fail(captureIsolation, "a capturing stream waits for an event that was recorded outside the capture");
  }
  give(stream, Work::Kind::Marker, "wait", [] { return Failure{}; }, {event.record->ticket});
}

void State::refuseCaptured(Event &event, const char *symbol) {
  if (!event.capture)
    return;
  invalidate(*event.capture, symbol);
  fail(capturedEvent, std::string(symbol) + " on an event that was recorded in a capture");
}

} // namespace tcc::machine
