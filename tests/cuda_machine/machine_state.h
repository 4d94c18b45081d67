// What the stand-ins of one process share beside streams, and what tests read: counted calls, planned failures,
// counters, findings. It lives in the library of stream_hook.h, which tests link; the runtime under test knows nothing
// of it.
#pragma once

#include <cstddef>
#include <cstdint>

/// One line a counter: name, meaning.
#define TCC_MACHINE_COUNTERS(X)                                                                                        \
  X(allocations)      /* cuMemAlloc that succeeded */                                                                  \
  X(liveBuffers)      /* allocations not freed */                                                                      \
  X(liveBytes)        /* their bytes */                                                                                \
  X(peakBytes)        /* the most that liveBytes has been */                                                           \
  X(pinned)           /* cuMemHostAlloc that succeeded */                                                              \
  X(livePinned)       /* not freed */                                                                                  \
  X(liveHandles)      /* contexts retained, streams, events, modules, graphs, executable graphs */                     \
  X(launches)         /* kernels that ran, graphs' kernels among them */                                               \
  X(operations)       /* what ran in all: kernels, copies, fills, products, graphs */                                  \
  X(graphLaunches)    /* cuGraphLaunch that was taken */                                                               \
  X(captures)         /* cuStreamEndCapture that gave a graph */                                                       \
  X(instantiations)   /* executable graphs made */                                                                     \
  X(synchronizations) /* calls that wait: of streams, events, contexts, and copies that do not return before */        \
  X(bytesToDevice)    /* copied from the host */                                                                       \
  X(bytesToHost)      /* copied to the host */                                                                         \
  X(moduleLoads)      /* modules loaded */                                                                             \
  X(compilations)     /* texts that NVRTC compiled */                                                                  \
  X(invalidReleases)  /* handles or memory released twice, or never made */                                            \
  X(livePrograms)     /* NVRTC programs not destroyed */                                                               \
  X(leaks)            /* what a context still held when it was closed */                                               \
  X(lostContexts)     /* contexts that an error made unusable */

struct TccMachineCounters {
#define TCC_DECLARE(name) std::uint64_t name = 0;
  TCC_MACHINE_COUNTERS(TCC_DECLARE)
#undef TCC_DECLARE
};

extern "C" {
/// The counters of the process. At its end they are written as JSON to the file that TCC_CUDA_MACHINE_COUNTERS names.
TccMachineCounters *tccMachineCounters();
/// For the stand-ins: counts a call of the symbol; 0, or the code that is planned for it.
int tccMachineCall(const char *symbol, int defaultCode);
/// How often a symbol was called; 0 of an unknown one.
std::uint64_t tccMachineCalls(const char *symbol);
/// The symbols called so far, in alphabetical order; null after the last.
const char *tccMachineSymbol(std::size_t index);
/// Plans failures in place of TCC_CUDA_MACHINE_FAIL, "symbol:n" or "symbol:n:code", separated by commas. Counts of
/// calls start again. False where the text cannot be read.
bool tccMachineFail(const char *plan);
/// For the stand-ins: a finding, one line.
void tccMachineNote(const char *finding);
/// All findings, one a line: of kernels, of captures, of memory; what a driver would not tell.
const char *tccMachineReport();
/// Starts counting anew: calls, findings and counters, but what is live stays.
void tccMachineForget();
}
