// Exported functions of the driver's stand-in: streams, events, captures, graphs.
#include "tests/cuda_machine/exports.h"

#include <utility>

using namespace tcc::machine;

// --- Streams ------------------------------------------------------------------------------------------------------

EXPORT int cuStreamCreate(void **handle, unsigned flags) {
  return call(__func__, needsContext, [&](State &state) {
    if (flags > 1)
      fail(invalidValue, "flags of cuStreamCreate");
    auto stream = std::make_shared<Stream>();
    stream->blocking = flags == 0;
    auto context = state.current();
    giveHandle(handle, state.add(stream, context->handle));
    context->streams.push_back(stream);
  });
}

EXPORT int cuStreamCreateWithPriority(void **handle, unsigned flags, int) {
  return cuStreamCreate(handle, flags);
}

EXPORT int cuStreamDestroy_v2(void *handle) {
  return call(__func__, needsContext | releases, [&](State &state) {
    auto stream = state.release<Stream>(handle, "stream");
    if (stream->capture)
      state.invalidate(*stream->capture, "cuStreamDestroy");
    // Its work goes on: whoever waits for the device waits for it.
    auto &streams = state.contextOf(*stream)->streams;
    for (auto at = streams.begin(); at != streams.end();)
      at = (*at == stream || (*at)->destroyed) && (*at)->pending.empty() ? streams.erase(at) : at + 1;
    stream->destroyed = true;
  });
}

EXPORT int cuStreamSynchronize(void *handle) {
  return call(__func__, needsContext, [&](State &state) {
    auto stream = state.stream(handle);
    if (stream->capture) {
      state.invalidate(*stream->capture, "cuStreamSynchronize");
      fail(captureUnsupported, "cuStreamSynchronize on a stream that is capturing");
    }
    state.refuseWhileCapturing("cuStreamSynchronize");
    auto context = state.contextOf(*stream);
    ++state.counters().synchronizations;
    state.runUntil(stream, stream->given);
    if (stream == context->legacy)
      for (const std::shared_ptr<Stream> &other : context->streams)
        if (other->blocking)
          state.runUntil(other, other->given);
    state.requireAlive(*context);
  });
}

EXPORT int cuStreamQuery(void *handle) {
  return call(__func__, needsContext, [&](State &state) {
    auto stream = state.stream(handle);
    if (stream->capture) {
      state.invalidate(*stream->capture, "cuStreamQuery");
      fail(captureUnsupported, "cuStreamQuery on a stream that is capturing");
    }
    state.refuseWhileCapturing("cuStreamQuery");
    bool ready = stream->done == stream->given;
    state.step(stream);
    state.requireAlive(*state.contextOf(*stream));
    if (!ready)
      fail(notReady, "");
  });
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  return call(__func__, needsContext, [&](State &state) {
    if (flags)
      fail(notSupported, "external events");
    if (++state.waitNumber == state.settings.lostWait)
      return;
    state.waitForEvent(state.stream(stream), *state.find<Event>(event, "event"));
  });
}

// --- Events -------------------------------------------------------------------------------------------------------

EXPORT int cuEventCreate(void **handle, unsigned flags) {
  return call(__func__, needsContext, [&](State &state) {
    constexpr unsigned disableTiming = 2;
    if (flags > 3)
      fail(notSupported, "flags of cuEventCreate");
    auto event = std::make_shared<Event>();
    event->timing = !(flags & disableTiming);
    giveHandle(handle, state.add(event, state.current()->handle));
  });
}

EXPORT int cuEventDestroy_v2(void *handle) {
  return call(__func__, needsContext | releases, [&](State &state) { state.release<Event>(handle, "event"); });
}

EXPORT int cuEventRecord(void *event, void *stream) {
  return call(__func__, needsContext,
              [&](State &state) { state.recordEvent(*state.find<Event>(event, "event"), state.stream(stream)); });
}

EXPORT int cuEventSynchronize(void *handle) {
  return call(__func__, needsContext, [&](State &state) {
    auto event = state.find<Event>(handle, "event");
    state.refuseCaptured(*event, "cuEventSynchronize");
    state.refuseWhileCapturing("cuEventSynchronize");
    ++state.counters().synchronizations;
    if (event->record)
      state.runUntil(event->record->ticket.stream, event->record->ticket.number);
    state.requireAlive(*state.contextOf(*event));
  });
}

EXPORT int cuEventQuery(void *handle) {
  return call(__func__, needsContext, [&](State &state) {
    auto event = state.find<Event>(handle, "event");
    state.refuseCaptured(*event, "cuEventQuery");
    state.refuseWhileCapturing("cuEventQuery");
    bool ready = !event->record || event->record->reached();
    if (!ready)
      state.step(event->record->ticket.stream);
    state.requireAlive(*state.contextOf(*event));
    if (!ready)
      fail(notReady, "");
  });
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *stop) {
  return call(__func__, needsContext, [&](State &state) {
    auto first = state.find<Event>(start, "event"), last = state.find<Event>(stop, "event");
    state.refuseCaptured(*first, "cuEventElapsedTime");
    state.refuseCaptured(*last, "cuEventElapsedTime");
    if (!first->timing || !last->timing || !first->record || !last->record || first->context != last->context)
      fail(invalidHandle, "an event without timing, never recorded, or of another device");
    if (!first->record->reached() || !last->record->reached())
      fail(notReady, "an event that is recorded is not reached yet");
    *milliseconds = static_cast<float>(last->record->time - first->record->time);
  });
}

// --- Captures and graphs ------------------------------------------------------------------------------------------

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  return call(__func__, needsInit, [&](State &) {
    if (*mode < 0 || *mode > 2)
      fail(invalidValue, "capture mode " + std::to_string(*mode));
    std::swap(threadState().captureMode, *mode);
  });
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) {
  return call(__func__, needsContext, [&](State &state) { state.beginCapture(state.stream(stream), mode); });
}

EXPORT int cuStreamEndCapture(void *stream, void **graph) {
  // The stream leaves capture mode whatever the call returns.
  return call(__func__, needsContext | releases, [&](State &state) {
    *graph = nullptr;
    auto origin = state.stream(stream);
    auto captured = state.endCapture(origin);
    if (!state.planned)
      giveHandle(graph, state.add(captured, origin->context));
  });
}

EXPORT int cuStreamIsCapturing(void *stream, int *status) {
  return call(__func__, needsContext, [&](State &state) {
    auto capture = state.stream(stream)->capture;
    *status = !capture ? 0 : capture->invalid ? 2 : 1;
  });
}

EXPORT int cuGraphDestroy(void *graph) {
  return call(__func__, needsContext | releases, [&](State &state) { state.release<Graph>(graph, "graph"); });
}

EXPORT int cuGraphGetNodes(void *graph, void **nodes, std::size_t *count) {
  return call(__func__, needsContext, [&](State &state) {
    if (nodes)
      fail(notSupported, "handles of nodes");
    *count = state.find<Graph>(graph, "graph")->nodes.size();
  });
}

EXPORT int cuGraphInstantiateWithFlags(void **handle, void *graph, unsigned long long flags) {
  return call(__func__, needsContext, [&](State &state) {
    if (flags)
      fail(notSupported, "flags of cuGraphInstantiateWithFlags");
    auto source = state.find<Graph>(graph, "graph");
    auto executable = std::make_shared<ExecutableGraph>();
    executable->nodes = std::make_shared<const std::vector<Node>>(source->nodes);
    ++state.counters().instantiations;
    giveHandle(handle, state.add(executable, source->context));
  });
}

EXPORT int cuGraphUpload(void *executable, void *stream) {
  return call(__func__, needsContext, [&](State &state) {
    state.find<ExecutableGraph>(executable, "executable graph");
    state.stream(stream);
  });
}

EXPORT int cuGraphLaunch(void *handle, void *stream) {
  return call(__func__, needsContext, [&](State &state) {
    auto executable = state.find<ExecutableGraph>(handle, "executable graph");
    auto target = state.stream(stream);
    if (target->context != state.current()->handle || executable->context != target->context)
      fail(invalidHandle, "the graph, its stream and the current context are of different devices");
    std::vector<Ticket> after;
    if (executable->latest.stream)
      after.push_back(executable->latest);
    state.give(
        target, Work::Kind::Graph, "graph", [nodes = executable->nodes] { return State::get().runNodes(*nodes); },
        std::move(after));
    if (!target->capture)
      executable->latest = {target, target->given};
    ++state.counters().graphLaunches;
  });
}

EXPORT int cuGraphExecUpdate_v2(void *handle, void *graph, void *result) {
  struct UpdateResult {
    int result;
    void *node, *from;
  };
  return call(__func__, needsContext, [&](State &state) {
    constexpr int updated = 0, topologyChanged = 2;
    auto executable = state.find<ExecutableGraph>(handle, "executable graph");
    auto source = state.find<Graph>(graph, "graph");
    const std::vector<Node> &old = *executable->nodes, &fresh = source->nodes;
    bool same = old.size() == fresh.size();
    for (std::size_t i = 0; same && i < old.size(); ++i)
      same = old[i].after == fresh[i].after && old[i].work->kind == fresh[i].work->kind;
    *static_cast<UpdateResult *>(result) = {same ? updated : topologyChanged, nullptr, nullptr};
    if (!same)
      fail(graphUpdateFailure, "the captured work has another shape than the executable graph");
    executable->nodes = std::make_shared<const std::vector<Node>>(fresh);
  });
}

EXPORT int cuGraphExecDestroy(void *executable) {
  return call(__func__, needsContext | releases,
              [&](State &state) { state.release<ExecutableGraph>(executable, "executable graph"); });
}
