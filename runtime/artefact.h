// The artefact: plan, machine code and metadata of one compiled step as one self-contained, checksummed byte string.
// Layout, little endian: magic "tccart\r\n", u32 version, u32 section count (3), u64 length of each section
// (plan JSON, ELF shared object, metadata JSON), the sections, XXH3-128 of everything before it.
#pragma once
#include "runtime/error.h"
#include "runtime/plan.h"
#include <map>
#include <string>
#include <string_view>

namespace tcc::runtime {

struct Artefact {
  Plan plan;
  std::string code;                            ///< bytes of an ELF shared object; empty when the plan has no kernels
  std::map<std::string, std::string> metadata; ///< target, build id, flags, compile time ...; free text
};

/// Errors: a plan that does not validate.
Expected<std::string> serializeArtefact(const Artefact &artefact);

/// Errors: anything but the exact bytes that serializeArtefact gave (truncation, any changed bit, trailing bytes),
/// another version, an invalid plan.
Expected<Artefact> parseArtefact(std::string_view bytes);

/// Writes by an AtomicFile (files.h): a reader sees the old file or the new one, never a half. Errors name the path and
/// the system's reason.
Error writeArtefact(const Artefact &artefact, const std::string &path);
Expected<Artefact> readArtefact(const std::string &path);

} // namespace tcc::runtime
