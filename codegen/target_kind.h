// TargetKind: what is known about a kind of target (CPUs, NVIDIA GPUs) before there is a module to compile: its names,
// the machines that its targets are for, what can be shown of its kernels, its devices. Each folder of a target has one
// object, and targets.cpp lists them.
#pragma once
#include "codegen/target.h"
#include "runtime/device/device.h"

namespace tcc {

/// How code is made. Each kind uses the members that concern it.
struct CodeOptions {
  unsigned compileThreads = 0; // 0: all cores
  bool fastMath = false;       // whether FMAs are allowed, sums may have any order, and a zero may have any sign
  bool tf32 = false;           // whether f32 operands of matmuls may be rounded to TF32, where a target has it
  bool steady = false;         // whether a value must have the same bits in every program that computes it
};

/// A form in which a kind can show the kernels of a step, instead of making an artefact.
struct KernelEmission {
  llvm::StringRef name;    // its word in -emit=
  llvm::StringRef suffix;  // the suffix of its file, if it is written to one
  bool isText;             // whether -emit= prints it; if not, it is written to a file
  bool isNumbered = false; // whether it is several files, whose names have architecture and number and are printed
};

/// What Target::emitAs gave for one target.
struct EmittedCode {
  std::string architecture;
  std::vector<std::string> modules;
};

struct DeviceOptions {
  int ordinal = 0;
  std::string tuningFile = {}; // where the device may remember what it has measured; empty: nowhere
};

class TargetKind {
public:
  virtual ~TargetKind() = default;

  /// Its name in --target=, with which the names of its targets begin: "cuda".
  virtual llvm::StringRef name() const = 0;
  /// What messages call its machines: "GPU".
  virtual llvm::StringRef noun() const = 0;
  /// A line of --help that says what the kind is, and how -march= spells its architectures.
  virtual llvm::StringRef help() const = 0;

  /// Whether an architecture of -march= can only be one of this kind.
  virtual bool owns(llvm::StringRef architecture) const = 0;
  /// Whether an architecture of -march= may be one of this kind.
  virtual bool takes(llvm::StringRef architecture) const { return owns(architecture); }
  /// What a message says was expected if takes() is false: "an architecture such as sm_90a".
  virtual llvm::StringRef expected() const = 0;
  /// The names of the targets for the architectures of -march=, one of which may be "native". If there are none, gives
  /// the kind's default. `why` gets how the targets were found, in words, if that is not obvious. Errors: there is no
  /// such target.
  virtual runtime::Expected<std::vector<std::string>> targetsFor(llvm::ArrayRef<std::string> architectures,
                                                                 std::string &why) const = 0;
  /// Adds the target, if there is one, whose code also runs on machines that are newer than all the others.
  virtual void addPortable(std::vector<std::string> &) const {}
  /// `architecture` is what follows the colon of a target's name; if it is empty, the kind's default is taken.
  virtual runtime::Expected<std::unique_ptr<Target>> make(llvm::StringRef architecture, const CodeOptions &options,
                                                          int threads) const = 0;

  /// The names that -march=help prints. This machine's name comes first.
  virtual std::vector<std::string> architectures() const { return {}; }

  virtual llvm::ArrayRef<KernelEmission> emissions() const = 0;
  /// The name of the emission that -S writes; empty if there is none.
  virtual llvm::StringRef assembly() const { return {}; }
  /// The text that is printed for an emission that is text.
  virtual std::string shown(const KernelEmission &emission, llvm::ArrayRef<EmittedCode> codes) const;

  /// Whether its code runs on devices with memory of their own, which openDevice() opens.
  virtual bool hasDevices() const { return false; }
  /// Why this machine cannot have such a device, judged by what is installed; empty if it may have one.
  virtual std::string absence() const { return {}; }
  /// Opens a device; null if the host runs the code. An error says what is missing and how to get it.
  virtual runtime::Expected<std::shared_ptr<runtime::Device>> openDevice(const DeviceOptions &options) const {
    (void)options;
    return std::shared_ptr<runtime::Device>();
  }
  /// A short test of a device. Gives an error if it computes wrongly.
  virtual runtime::Error testDevice(const std::shared_ptr<runtime::Device> &device) const {
    (void)device;
    return {};
  }
  /// For --doctor: prints what the machine has for this kind and what it lacks. False if something is wrong, or if
  /// something is missing that compiling needs.
  virtual bool examine(llvm::raw_ostream &os) const = 0;
};

} // namespace tcc
