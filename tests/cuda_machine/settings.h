// How the machine behaves: words of the environment variable TCC_CUDA_MACHINE, separated by commas.
#pragma once

#include "tests/cuda_emulator/emulator.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tcc::machine {

/// When operations of streams run: as late as the program's waits allow, as soon as they are given, or either by
/// chance.
enum class Streams { Late, Early, Random };

enum class Model { A100, H200 };

struct Settings {
  Streams streams = Streams::Late;
  /// The schedule of each launch; the word "checked" sets checkAccesses.
  emulator::Schedule schedule;
  /// Texts are compiled without access checks: launches take less time, but checked ones need the text compiled again.
  bool plain = false;
  Model model = Model::H200;
  /// A fault for tests of tests: where a tensor map lies already, none is written.
  bool staleMaps = false;
  /// A fault for tests of tests: the cuStreamWaitEvent of this number waits for nothing; 0: none.
  std::uint64_t lostWait = 0;
  int devices = 1;
  /// Bytes of each device's memory; 0 is the model's.
  std::size_t memory = 0;
  /// What cuDriverGetVersion tells.
  int driver = 13000;
  /// NVRTC's version, written as the driver's.
  int nvrtc = 13000;
};

/// Words: late, early, random (streams); forward, reverse, shuffled (blocks, warps, lanes); late-copies, early-copies,
/// random-copies (cp.async, TMA, wgmma); checked, unchecked, plain; a100, h200; stale-maps; devices=N, memory=BYTES,
/// driver=VERSION, nvrtc=VERSION, seed=N, noise=ULP, lost-wait=N. Later words win. Throws std::invalid_argument for any
/// other, and for "checked" with "plain".
Settings parseSettings(const std::string &words);

/// What TCC_CUDA_MACHINE says now.
Settings currentSettings();

} // namespace tcc::machine
