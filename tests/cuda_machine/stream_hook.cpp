#include "tests/cuda_machine/stream_hook.h"

TccStreamHook *tccStreamHook() {
  static TccStreamHook hook = {};
  return &hook;
}
