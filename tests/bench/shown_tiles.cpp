// To be preloaded: CPUID's leaves 0x1D and 0x1E as CPUs with AMX have them, where a virtual machine announces AMX and
// hides them, so that oneDNN's products of tiles, PyTorch's among them, can be measured there as well. CPUID faults, by
// arch_prctl(ARCH_SET_CPUID), and is answered here. Elsewhere it does nothing.
#include <cpuid.h>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

using Sigaction = int (*)(int, const struct sigaction *, struct sigaction *);

struct sigaction ofProgram{}; // what it would do with a SIGSEGV
bool active = false;

int realAction(int number, const struct sigaction *action, struct sigaction *old) {
  static const auto real = reinterpret_cast<Sigaction>(dlsym(RTLD_NEXT, "sigaction"));
  return real(number, action, old);
}

bool faultOnCpuid(bool on) {
  constexpr int archSetCpuid = 0x1012;
  return ::syscall(SYS_arch_prctl, archSetCpuid, on ? 0 : 1) == 0;
}

/// Leaf 0x1D: one palette, of 8 tiles with 16 rows of 64 bytes; leaf 0x1E: products of 16 rows and 64 bytes.
void answer(unsigned leaf, unsigned subleaf, unsigned (&registers)[4]) {
  __cpuid_count(leaf, subleaf, registers[0], registers[1], registers[2], registers[3]);
  if (leaf == 0 && registers[0] < 0x1e)
    registers[0] = 0x1e;
  constexpr unsigned palettes[4] = {1}, palette[4] = {8192 | 1024 << 16, 64 | 8 << 16, 16},
                     products[4] = {0, 16 | 64 << 8};
  if (leaf == 0x1d && subleaf < 2)
    std::memcpy(registers, subleaf == 0 ? palettes : palette, sizeof(registers));
  if (leaf == 0x1e && subleaf == 0)
    std::memcpy(registers, products, sizeof(registers));
}

void onFault(int number, siginfo_t *information, void *context) {
  greg_t *saved = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  constexpr unsigned char cpuid[] = {0x0f, 0xa2};
  const bool isCpuid = information->si_code == SI_KERNEL &&
                       std::memcmp(reinterpret_cast<const void *>(saved[REG_RIP]), cpuid, sizeof(cpuid)) == 0;
  if (isCpuid) {
    unsigned registers[4];
    faultOnCpuid(false);
    answer(static_cast<unsigned>(saved[REG_RAX]), static_cast<unsigned>(saved[REG_RCX]), registers);
    faultOnCpuid(true);
    saved[REG_RAX] = registers[0];
    saved[REG_RBX] = registers[1];
    saved[REG_RCX] = registers[2];
    saved[REG_RDX] = registers[3];
    saved[REG_RIP] += sizeof(cpuid);
  } else if (ofProgram.sa_flags & SA_SIGINFO) {
    ofProgram.sa_sigaction(number, information, context);
  } else if (ofProgram.sa_handler != SIG_DFL && ofProgram.sa_handler != SIG_IGN) {
    ofProgram.sa_handler(number);
  } else {
    realAction(SIGSEGV, &ofProgram, nullptr); // the fault comes again
  }
}

__attribute__((constructor)) void showTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amxBf16 = 1u << 22;
  const bool announced = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amxBf16);
  if (!announced || __get_cpuid_max(0, nullptr) >= 0x1d)
    return;
  struct sigaction action{};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  active = realAction(SIGSEGV, &action, nullptr) == 0 && faultOnCpuid(true);
}

} // namespace

// A program's handler of SIGSEGV gets what is no CPUID.
extern "C" int sigaction(int number, const struct sigaction *action, struct sigaction *old) noexcept {
  if (number != SIGSEGV || !active)
    return realAction(number, action, old);
  if (old)
    *old = ofProgram;
  if (action)
    ofProgram = *action;
  return 0;
}

extern "C" sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction action{}, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
