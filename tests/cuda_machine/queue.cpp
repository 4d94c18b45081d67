// Streams: work in order, each piece after what it waits for, run at the latest or the earliest moment.
#include "tests/cuda_machine/state.h"

#include <chrono>
#include <exception>

namespace tcc::machine {

std::shared_ptr<Stream> State::stream(const void *handle) {
  Handle value = reinterpret_cast<Handle>(handle);
  if (value == 2)
    fail(notSupported, "the per-thread default stream");
  return value <= 1 ? current()->legacy : find<Stream>(handle, "stream");
}

void State::give(const std::shared_ptr<Stream> &stream, Work::Kind kind, std::string name, std::function<Failure()> run,
                 std::vector<Ticket> after) {
  std::shared_ptr<Context> context = contextOf(*stream);
  requireAlive(*context);
  auto work = std::make_shared<Work>(Work{kind, std::move(name), context, std::move(run)});
  if (stream->capture) {
    captureWork(*stream, std::move(work));
    return;
  }
  // The legacy stream and blocking streams wait for each other.
  if (stream == context->legacy) {
    for (const std::shared_ptr<Stream> &other : context->streams) {
      if (!other->blocking)
        continue;
      if (other->capture) {
        invalidate(*other->capture, "use of the legacy stream");
        fail(captureImplicit, "the legacy stream is used while a blocking stream is capturing");
      }
      after.push_back({other, other->given});
    }
  } else if (stream->blocking)
    after.push_back({context->legacy, context->legacy->given});
  stream->pending.push_back({std::move(work), std::move(after)});
  ++stream->given;
  if (settings.streams == Streams::Early)
    runUntil(stream, stream->given);
  while (settings.streams == Streams::Random && chance(2)) {
    std::size_t count = context->streams.size() + 1, chosen = 0;
    while (chosen + 1 < count && !chance(static_cast<unsigned>(count - chosen)))
      ++chosen;
    step(chosen < context->streams.size() ? context->streams[chosen] : context->legacy);
  }
}

void State::runUntil(const std::shared_ptr<Stream> &stream, std::uint64_t number) {
  while (stream->done < number) {
    // Run with what it waits for: that was given earlier and cannot wait for this.
    std::vector<Ticket> after = std::move(stream->pending.front().after);
    stream->pending.front().after.clear();
    for (const Ticket &ticket : after)
      runUntil(ticket.stream, ticket.number);
    std::shared_ptr<Work> work = std::move(stream->pending.front().work);
    stream->pending.pop_front();
    if (!work->context->lost.code)
      if (Failure failure = runWork(*work); failure.code)
        lose(*work->context, std::move(failure));
    ++stream->done;
  }
}

void State::runAll(Context &context) {
  std::vector<std::shared_ptr<Stream>> streams = context.streams;
  streams.push_back(context.legacy);
  for (const std::shared_ptr<Stream> &stream : streams)
    runUntil(stream, stream->given);
}

void State::step(const std::shared_ptr<Stream> &stream) {
  if (stream->done < stream->given)
    runUntil(stream, stream->done + 1);
}

Failure State::runWork(const Work &work) {
  setOpen(work.context);
  if (work.kind != Work::Kind::Marker)
    ++counters().operations;
  if (work.kind == Work::Kind::Kernel)
    ++counters().launches;
  try {
    return work.run();
  } catch (const Failure &failure) {
    return failure;
  } catch (const std::exception &error) {
    return {launchFailed, work.name + ": " + error.what()};
  }
}

Failure State::runNodes(const std::vector<Node> &nodes) {
  std::vector<bool> ran(nodes.size());
  for (std::size_t count = 0; count < nodes.size(); ++count) {
    // Any order that the edges allow: late, the last that is ready, so that a missing edge shows.
    std::size_t chosen = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      bool ready = !ran[i];
      for (int before : nodes[i].after)
        ready = ready && ran[static_cast<std::size_t>(before)];
      if (!ready)
        continue;
      if (chosen == nodes.size() || settings.streams == Streams::Late ||
          (settings.streams == Streams::Random && chance(2)))
        chosen = i;
      if (settings.streams == Streams::Early)
        break;
    }
    ran[chosen] = true;
    if (Failure failure = runWork(*nodes[chosen].work); failure.code)
      return failure;
  }
  return {};
}

} // namespace tcc::machine
