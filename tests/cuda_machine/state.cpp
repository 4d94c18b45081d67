// Calls, handles and contexts of the driver's stand-in.
#include "tests/cuda_machine/state.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tcc::machine {
namespace {

struct ErrorText {
  int code;
  const char *name, *sentence;
};
constexpr std::array errors = {
    ErrorText{success, "CUDA_SUCCESS", "no error"},
    ErrorText{invalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{notInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ErrorText{noDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ErrorText{invalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{invalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    ErrorText{invalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    ErrorText{noBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the device"},
    ErrorText{unsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
              "the provided PTX was compiled with an unsupported toolchain."},
    ErrorText{invalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ErrorText{illegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    ErrorText{notFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{notReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{illegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    ErrorText{contextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    ErrorText{misalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    ErrorText{launchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    ErrorText{notPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    ErrorText{notSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{captureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
              "operation not permitted when stream is capturing"},
    ErrorText{captureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
              "operation failed due to a previous error during capture"},
    ErrorText{captureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
              "operation would result in a merge of separate capture sequences"},
    ErrorText{captureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream"},
    ErrorText{captureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    ErrorText{captureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
              "dependency created on uncaptured work in another stream"},
    ErrorText{captureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
              "operation would make the legacy stream depend on a capturing blocking stream"},
    ErrorText{capturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
              "operation not permitted on an event last recorded in a capturing stream"},
    ErrorText{captureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
              "attempt to terminate a thread-local capture sequence from another thread"},
    ErrorText{graphUpdateFailure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
              "the graph update was not performed because it included changes which violated constraints"},
    ErrorText{invalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    ErrorText{unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText *errorOf(int code) {
  auto found = std::find_if(errors.begin(), errors.end(), [code](const ErrorText &e) { return e.code == code; });
  return found == errors.end() ? nullptr : &*found;
}

/// Errors after which a context is of no more use.
bool isSticky(int code) {
  return code == illegalAddress || (code >= 714 && code <= launchFailed) || code == 702 || code == 710 || code == 214;
}

constexpr DeviceModel a100 = {"Emulated A100",      80, 108, 1410000, 1593000, 5120, 40 << 20, 164 << 10, 163 << 10,
                              std::size_t{79} << 30};
constexpr DeviceModel h200 = {"Emulated H200",       90, 132, 1980000, 3201000, 6144, 50 << 20, 228 << 10, 227 << 10,
                              std::size_t{140} << 30};

} // namespace

const char *errorName(int code) {
  const ErrorText *error = errorOf(code);
  return error ? error->name : nullptr;
}

const char *errorSentence(int code) {
  const ErrorText *error = errorOf(code);
  return error ? error->sentence : nullptr;
}

void fail(int code, std::string text) {
  throw Failure{code, std::move(text)};
}

ThreadState &threadState() {
  thread_local ThreadState state;
  return state;
}

State &State::get() {
  static State *state = new State; // never destroyed: releases may come after the end of main
  return *state;
}

const DeviceModel &State::model() const {
  return settings.model == Model::A100 ? a100 : h200;
}

std::size_t State::deviceMemory() const {
  return settings.memory ? settings.memory : model().memory;
}

bool State::chance(unsigned inverse) {
  randomState = randomState * 6364136223846793005ull + 1442695040888963407ull;
  return (randomState >> 33) % inverse == 0;
}

// --- Handles ------------------------------------------------------------------------------------------------------

Handle State::add(std::shared_ptr<Object> object, Handle context) {
  static Handle next = 0x7cc000001000;
  object->handle = next += 16;
  object->context = context;
  ++counters().liveHandles;
  return objects.emplace(object->handle, std::move(object)).first->first;
}

// --- Contexts -----------------------------------------------------------------------------------------------------

std::shared_ptr<Context> State::current() {
  Handle handle = threadState().context;
  if (!handle)
    fail(invalidContext, "no context is current on this thread");
  auto found = objects.find(handle);
  if (found == objects.end())
    fail(contextIsDestroyed, "the thread's current context was released");
  return std::static_pointer_cast<Context>(found->second);
}

std::shared_ptr<Context> State::contextOf(const Object &object) {
  auto found = objects.find(object.context);
  if (found == objects.end())
    fail(contextIsDestroyed, std::string("the context of this ") + object.what() + " was released");
  return std::static_pointer_cast<Context>(found->second);
}

void State::lose(Context &context, Failure failure) {
  if (context.lost.code)
    return;
  ++counters().lostContexts;
  tccMachineNote(failure.text.c_str());
  context.lost = std::move(failure);
}

void State::requireAlive(const Context &context) {
  if (context.lost.code)
    throw context.lost;
}

void State::setOpen(std::shared_ptr<Context> context) {
  if (open == context)
    return;
  for (auto &[address, held] : memory)
    if (!held->pinned && ((open && held->context == open->handle) || (context && held->context == context->handle)))
      held->buffer.setAccessible(context && held->context == context->handle);
  open = std::move(context);
}

void State::closeContext(Context &context, bool leaks) {
  std::map<std::string, int> lost;
  for (auto at = memory.begin(); at != memory.end();) {
    auto held = (at++)->second;
    if (held->context != context.handle)
      continue;
    ++lost[held->pinned ? "pinned " + held->buffer.name() : held->buffer.name()];
    free(held->address(), held->pinned);
  }
  for (auto at = objects.begin(); at != objects.end();) {
    if (at->second->context != context.handle || at->second.get() == &context) {
      ++at;
      continue;
    }
    if (!dynamic_cast<Function *>(at->second.get()))
      ++lost[at->second->what()];
    if (auto *module = dynamic_cast<LoadedModule *>(at->second.get()))
      module->unloaded = true;
    --counters().liveHandles;
    at = objects.erase(at);
  }
  context.streams.push_back(context.legacy);
  for (const std::shared_ptr<Stream> &stream : context.streams)
    stream->pending.clear();
  context.streams.clear();
  if (lost.empty() || !leaks)
    return;
  std::string text = "device " + std::to_string(context.ordinal) + " is closed with";
  for (auto &[what, count] : lost) {
    counters().leaks += static_cast<std::uint64_t>(count);
    text += " " + std::to_string(count) + " " + what + ",";
  }
  text.pop_back();
  tccMachineNote(text.c_str());
}

// --- Calls --------------------------------------------------------------------------------------------------------

static int checkedCall(State &state, const char *symbol, unsigned needs, const std::function<void(State &)> &body) {
  try {
    if (state.insideHostFunction)
      fail(notPermitted, std::string(symbol) + " inside a host function of a stream");
    if ((needs & needsInit) && !state.initialized)
      fail(notInitialized, "cuInit comes first");
    std::shared_ptr<Context> context;
    if ((needs & needsContext) == needsContext) {
      context = state.current();
      if (!(needs & releases))
        state.requireAlive(*context);
    }
    if (needs & unsafeInCapture)
      state.refuseWhileCapturing(symbol);
    body(state);
    if (context && (needs & releases))
      state.requireAlive(*context);
    return success;
  } catch (const Failure &failure) {
    state.details[failure.code] = failure.text;
    return failure.code;
  } catch (const std::bad_alloc &) {
    state.details[outOfMemory] = "the host has no more memory";
    return outOfMemory;
  } catch (const std::exception &error) {
    state.details[unknown] = error.what();
    return unknown;
  }
}

int call(const char *symbol, unsigned needs, const std::function<void(State &)> &body) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  bool allocates = std::strcmp(symbol, "cuMemAlloc_v2") == 0 || std::strcmp(symbol, "cuMemHostAlloc") == 0;
  int planned = tccMachineCall(symbol, allocates ? outOfMemory : unknown);
  if (planned) {
    state.details[planned] = std::string("planned for this call of ") + symbol;
    auto context = state.objects.find(threadState().context);
    if (isSticky(planned) && context != state.objects.end())
      state.lose(static_cast<Context &>(*context->second), {planned, state.details[planned]});
    if (!(needs & releases))
      return planned;
  }
  state.planned = planned;
  int code = checkedCall(state, symbol, needs, body);
  if (!state.insideHostFunction)
    state.setOpen(nullptr);
  return planned ? planned : code;
}

} // namespace tcc::machine
