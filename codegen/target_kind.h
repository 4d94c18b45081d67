// TargetKind: a kind of target (CPUs, NVIDIA GPUs) before there is a module to compile: its names, the machines that
// its targets are for, what can be shown of its kernels, its devices. There is one object for each folder of a target,
// and targets.cpp lists them.
#pragma once
#include "codegen/target.h"
#include "runtime/device/device.h"

namespace tcc {

/// How code is to be made; each kind takes what concerns it.
struct CodeOptions {
  unsigned compileThreads = 0; // 0: all cores
  bool fastMath = false;       // products may join sums in FMAs, sums may have any order, and a zero any sign
  bool steady = false;         // a value has the same bits in every program that computes it, whatever else that does
};

/// What a kind can show of the kernels of a step, in place of an artefact.
struct KernelEmission {
  llvm::StringRef name;    // of -emit=
  llvm::StringRef suffix;  // of the file that it is written to, where it is
  bool isText;             // -emit= prints it; otherwise it is written to a file
  bool isNumbered = false; // whether there are several such files, whose names have architecture and number and are
                           // printed
};

/// What Target::emitAs gave for one target.
struct EmittedCode {
  std::string architecture;
  std::vector<std::string> modules;
};

struct DeviceOptions {
  int ordinal = 0;
  std::string tuningFile = {}; // where it may remember what it has measured; empty: nowhere
};

class TargetKind {
public:
  virtual ~TargetKind() = default;

  /// "cuda": of --target=, and what names of its targets begin with.
  virtual llvm::StringRef name() const = 0;
  /// "GPU": for messages.
  virtual llvm::StringRef noun() const = 0;
  /// A line of --help: what it is, and its spellings of -march=.
  virtual llvm::StringRef help() const = 0;

  /// Whether an architecture of -march= can be nothing else than one of this kind.
  virtual bool owns(llvm::StringRef architecture) const = 0;
  /// Whether it may be one.
  virtual bool takes(llvm::StringRef architecture) const { return owns(architecture); }
  /// "an architecture such as sm_90a", for what it does not take.
  virtual llvm::StringRef expected() const = 0;
  /// The names of the targets for the architectures of -march=, of which one may be "native"; none: what the kind has
  /// by default. `why`: how they were found, for people, where that is not plain. An error where there is none.
  virtual runtime::Expected<std::vector<std::string>> targetsFor(llvm::ArrayRef<std::string> architectures,
                                                                 std::string &why) const = 0;
  /// Adds what an artefact has for machines that are newer than all its targets.
  virtual void addPortable(std::vector<std::string> &) const {}
  /// `architecture` is what follows the colon of a target's name; if it is empty, the kind's default is taken.
  virtual runtime::Expected<std::unique_ptr<Target>> make(llvm::StringRef architecture, const CodeOptions &options,
                                                          int threads) const = 0;

  /// The names that -march=help prints, this machine's first.
  virtual std::vector<std::string> architectures() const { return {}; }

  virtual llvm::ArrayRef<KernelEmission> emissions() const = 0;
  /// The name of the emission that -S writes; none where there is none.
  virtual llvm::StringRef assembly() const { return {}; }
  /// What is shown of an emission that is text.
  virtual std::string shown(const KernelEmission &emission, llvm::ArrayRef<EmittedCode> codes) const;

  /// Whether its code runs on devices with memory of their own, which openDevice() opens.
  virtual bool hasDevices() const { return false; }
  /// Why this machine can have no such device, from what is installed alone; empty where it may.
  virtual std::string absence() const { return {}; }
  /// Null where the host runs the code. An error says what is missing and how to get it.
  virtual runtime::Expected<std::shared_ptr<runtime::Device>> openDevice(const DeviceOptions &options) const {
    (void)options;
    return std::shared_ptr<runtime::Device>();
  }
  /// A short test of one: an error where it computes wrongly.
  virtual runtime::Error testDevice(const std::shared_ptr<runtime::Device> &device) const {
    (void)device;
    return {};
  }
  /// --doctor: prints what the machine has for this kind and lacks. False where something is wrong, or something
  /// missing that compiling needs.
  virtual bool examine(llvm::raw_ostream &os) const = 0;
};

} // namespace tcc
