// Findings, and faults of a kernel's own instructions made findings.
#include "tests/cuda_emulator/machine.h"

#include <csignal>
#include <cstdio>
#include <ucontext.h>
#include <unistd.h>

namespace tcc::emulator {

static constexpr std::size_t maxFindings = 20;

void Machine::prepareSignalStack() {
  struct SignalStack {
    std::vector<char> memory = std::vector<char>(64 * 1024);
    SignalStack() {
      stack_t alternate{};
      alternate.ss_sp = memory.data();
      alternate.ss_size = memory.size();
      sigaltstack(&alternate, nullptr);
    }
    ~SignalStack() {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  };
  thread_local SignalStack stack;
}

void Machine::installFaultHandler() {
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  action.sa_sigaction = [](int signal, siginfo_t *info, void *context) { onFaultInfo(signal, info, context); };
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void Machine::report(FindingKind kind, std::string text, void *place,
                     std::vector<std::pair<std::string, void *>> others) {
  for (const RawFinding &known : findings) // one finding a pair of places
    if (known.kind == kind && known.place == place && place &&
        (known.others.empty() ? nullptr : known.others[0].second) == (others.empty() ? nullptr : others[0].second))
      return;
  if (findings.size() < maxFindings)
    findings.push_back({kind, std::move(text), place, std::move(others)});
}

void Machine::fail(FindingKind kind, std::string text) {
  report(kind, std::move(text), running ? running->place : nullptr);
  aborted = true;
  while (true)
    switchFiber(running->fiber, scheduler);
}

void Machine::onFaultInfo(int signal, void *info, void *context) {
  Machine &machine = get();
  ucontext_t *registers = static_cast<ucontext_t *>(context);
  machine.faultAddress = static_cast<siginfo_t *>(info)->si_addr;
  if (!machine.running) { // not the kernel's fault: die as usual
    if (DeviceBuffer *buffer = machine.bufferAt(machine.faultAddress, 1, true))
      dprintf(STDERR_FILENO, "host code touches device memory: `%s`\n", buffer->label.c_str());
    ::signal(signal, SIG_DFL);
    return;
  }
  machine.faultPlace = reinterpret_cast<void *>(registers->uc_mcontext.gregs[REG_RIP] + 1);
  alignas(16) static char landing[64 * 1024];
  registers->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(landing + sizeof landing - 8);
  registers->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&faultLanding);
}

void Machine::faultLanding() {
  Machine &machine = get();
  Thread &thread = *machine.running;
  char *address = static_cast<char *>(machine.faultAddress);
  if (address >= thread.fiber.low - pageBytes && address < thread.fiber.low)
    machine.report(FindingKind::Launch, "the thread's stack overflows", machine.faultPlace);
  else
    machine.report(FindingKind::OutOfBounds, "access at " + machine.describeAddress(address), machine.faultPlace);
  machine.aborted = true;
  while (true)
    switchFiber(thread.fiber, machine.scheduler);
}

} // namespace tcc::emulator
