// Artefact: a compiled step as one self-contained, checksummed byte string, for one or several targets, each with its
// plan and its code. Layout, little endian: magic "tccart\r\n", u32 version (3), u32 section count, u64 length of
// each section, the sections, XXH3-128 of everything before it. Each section begins and the last one ends at a multiple
// of 64 bytes, with zeros between. Section 0 is JSON: metadata, and for each target the numbers of the sections with
// its plan (JSON) and its code objects. Equal sections are stored once. A step library (step.so, .o, .a) has the same
// bytes in an ELF section of their own.
#pragma once
#include "runtime/error.h"
#include "runtime/plan.h"
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// A kernel that is a part of the running program already.
struct LinkedKernel {
  const char *symbol;
  KernelFunction function;
};

struct TargetCode {
  std::string target; ///< the kind of device, and what the code is for: "cpu:x86-64-v4", "cuda:sm_90a"
  std::string needs;  ///< features of the device that the code uses, comma separated (cpu.h)
  Plan plan;
  std::vector<std::string> code; ///< an ELF shared object, or cubins or PTX; KernelCode::module selects one
  /// Kernels of the running program, sorted by symbol. If there are any, kernels are looked up here, and `code` holds
  /// empty strings.
  std::span<const LinkedKernel> linked = {};
  bool operator==(const TargetCode &other) const {
    return target == other.target && needs == other.needs && plan == other.plan && code == other.code;
  }
};

struct Artefact {
  std::vector<TargetCode> targets;             ///< the first that a device accepts is taken
  std::map<std::string, std::string> metadata; ///< build id, flags, compile time ...; free text
};

/// An artefact for the CPU alone; `code` is a shared object, empty when the plan has no kernels.
Artefact cpuArtefact(Plan plan, std::string code, std::map<std::string, std::string> metadata = {});

inline constexpr int64_t maxArtefactTargets = 64;
inline constexpr int64_t maxArtefactSections = 4096;

/// Checks an artefact. Errors: no target or too many; a target's name without a kind of device; a plan that does not
/// validate, or that names a code object which does not exist.
Error validateArtefact(const Artefact &artefact);

/// Errors: those of validateArtefact; more than maxArtefactSections different parts.
Expected<std::string> serializeArtefact(const Artefact &artefact);

/// Errors: anything but the exact bytes that serializeArtefact gave (truncation, any changed bit, trailing bytes),
/// another version, anything of validateArtefact.
Expected<Artefact> parseArtefact(std::string_view bytes);

/// For each target, where its code objects begin in the bytes of an artefact. Errors: those of parseArtefact that
/// concern the layout.
Expected<std::vector<std::vector<size_t>>> codeOffsets(std::string_view bytes);

/// Writes an AtomicFile (files.h): a reader sees the old file or the new one, never a part of one. Errors name the path
/// and the system's reason.
Error writeArtefact(const Artefact &artefact, const std::string &path);
/// Reads the bytes of an artefact, for parseArtefact, from a file of writeArtefact or from a step library (.so, .o).
Expected<std::string> readArtefactBytes(const std::string &path);
Expected<Artefact> readArtefact(const std::string &path);

} // namespace tcc::runtime
