// Calls that stay in progress, and the communicators of the process, whose devices go on while a rank waits for them.
#include "tests/cuda_machine/nccl/communicator.h"
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/stream_hook.h"

#include <chrono>
#include <map>
#include <thread>

namespace tcc::nccl {
namespace {

struct Live {
  std::mutex mutex;
  std::map<const void *, std::shared_ptr<Communicator>> communicators;
  bool goesOn = false;
};

/// Never destroyed: the thread below may outlive main.
Live &live() {
  static Live *all = new Live;
  return *all;
}

/// Whether a rank has begun an operation that this rank's device has not ended.
bool isWaitedFor(const Communicator &communicator) {
  for (int other = 0; other < communicator.ranks; ++other)
    if (communicator.meeting->slot(other).posted > communicator.own().collected)
      return true;
  return false;
}

/// A device needs nobody to go on. Late streams do, so what they hold runs once another rank has waited for a while.
void goOn() {
  using namespace std::chrono_literals;
  for (int waited = 0;; std::this_thread::sleep_for(5ms)) {
    bool isWaited = false;
    {
      const std::lock_guard lock(live().mutex);
      for (const auto &[handle, communicator] : live().communicators)
        isWaited = isWaited || (!communicator->isAborted && isWaitedFor(*communicator));
    }
    waited = isWaited ? waited + 1 : 0;
    if (waited > 4 && tccStreamHook()->advance)
      tccStreamHook()->advance();
  }
}

} // namespace

std::size_t bytesOf(int type) {
  constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= int8 && type <= bfloat16 ? bytes[type] : 0;
}

int refuse(Communicator *communicator, int status, const std::string &text) {
  tccMachineNote(("NCCL: " + text).c_str());
  if (communicator)
    communicator->said = text;
  return status;
}

Communicator::Communicator(std::shared_ptr<Meeting> meeting, int rank, int ranks, bool blocking)
    : meeting(std::move(meeting)), rank(rank), ranks(ranks), blocking(blocking), settings(currentSettings()) {}

int Communicator::begin(std::function<int()> finish) {
  isStuck = has(settings.stuck, ++begunCalls);
  pending = std::move(finish);
  polls = settings.polls;
  if (!blocking)
    return polls == 0 ? ask() : inProgress;
  for (polls = 0;; std::this_thread::yield())
    if (const int status = ask(); status != inProgress)
      return status;
}

int Communicator::ask() {
  if (!pending)
    return state;
  if (isStuck || polls-- > 0)
    return inProgress;
  const int status = pending();
  if (status == inProgress)
    return status;
  pending = nullptr;
  if (status != success)
    state = status;
  return status;
}

void keep(const std::shared_ptr<Communicator> &communicator) {
  const std::lock_guard lock(live().mutex);
  live().communicators[communicator.get()] = communicator;
  if (!live().goesOn)
    std::thread(goOn).detach();
  live().goesOn = true;
}

std::shared_ptr<Communicator> find(const void *handle) {
  const std::lock_guard lock(live().mutex);
  const auto found = live().communicators.find(handle);
  return found == live().communicators.end() ? nullptr : found->second;
}

void forget(const void *handle) {
  const std::lock_guard lock(live().mutex);
  live().communicators.erase(handle);
}

} // namespace tcc::nccl

extern "C" int tccNcclLive() {
  const std::lock_guard lock(tcc::nccl::live().mutex);
  return static_cast<int>(tcc::nccl::live().communicators.size());
}
