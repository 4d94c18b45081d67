// StepCache: keeps whole compiled steps on disk. It decides which steps share an entry, what an entry holds, and says
// why no entry was found.
#pragma once
#include "codegen/compile_session.h"
#include "codegen/name_table.h"

namespace tcc {

/// A captured function as the cache knows it, before passes change it. An entry depends on the function, the target,
/// the options that make code, the CPU and this build; not on where in files its ops stand, nor on what people call the
/// function, its tensors and its parts (name_table.h).
class StepCache {
public:
  /// `sends`: whether entries are also sent to other ranks (digest(), entry(), read()), for which no disk is needed.
  StepCache(mlir::ModuleOp captured, const CompileOptions &options, const Target &target, bool sends = false);

  /// Why the step is neither looked up nor kept; empty if it can be.
  const std::string &refusal() const { return refused; }
  /// BLAKE3 of the key: two steps with one digest share an entry. Empty if nobody can know what the step depends on, or
  /// if that is not asked for.
  std::string digest() const;
  /// The step of the entry, with the names and places of this function. `report` gets what compiling it had reported.
  /// Nothing if there is no entry.
  std::optional<runtime::Artefact> find(CompileReport &report);
  /// Whether the step runs code of the user's, which is checked whenever it is compiled or found.
  bool checksCode() const { return mustCheck; }
  /// Which part of the key differs from the nearest entry: "flags differ: -O2 → -O3"; or what was wrong with the entry
  /// that find() has seen.
  std::string missReason() const;
  /// Counts that find() gave a step (`found`), or that the step had to be compiled.
  void count(bool found) const {
    cache.count(FileCache::steps, found ? FileCache::Event::hit : FileCache::Event::miss);
  }
  /// Waits until no other process compiles the step, and keeps others waiting as long as the result lives.
  FileCache::Turn wait() const { return cache.wait(FileCache::steps, key); }
  runtime::Error store(const runtime::Artefact &artefact, const CompileReport &report) const;
  /// The bytes that store() stores. Errors: a plan names a place that no op of the function has.
  runtime::Expected<std::string> entry(const runtime::Artefact &artefact, const CompileReport &report) const;
  /// As find(), of the bytes of an entry; nothing where they are none.
  std::optional<runtime::Artefact> read(std::string_view entry, CompileReport &report) const;
  /// Stores these bytes as the entry.
  runtime::Error storeBytes(std::string_view bytes) const { return cache.store(FileCache::steps, key, bytes); }

  /// A part of the key: its name, its value, and how the value is shown to people.
  struct Part {
    std::string name, value, shown;
  };
  const std::vector<Part> &parts() const { return keyParts; }
  std::string file() const { return cache.fileOf(FileCache::steps, key); }

private:
  std::string header(const CompileReport &report) const;

  FileCache cache;
  std::string refused, key;
  std::string damage; // of the entry
  bool mustCheck = false;
  std::vector<Part> keyParts;
  std::optional<NameTable> names;
};

} // namespace tcc
