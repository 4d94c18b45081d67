// Whole compiled steps on disk: what makes two of them one, what an entry holds, and why there was none.
#pragma once
#include "codegen/compile_session.h"
#include "codegen/name_table.h"

namespace tcc {

/// A captured function as the cache knows it, before passes change it. An entry depends on the function, the target,
/// the options that make code, the CPU and this build; not on where in files its ops stand, nor on what people call the
/// function, its tensors and its parts (name_table.h).
class StepCache {
public:
  StepCache(mlir::ModuleOp captured, const CompileOptions &options, const Target &target);

  /// Why nothing is looked up and nothing kept; empty where the step can be.
  const std::string &refusal() const { return refused; }
  /// The entry, with the names and places of this function, and what compiling it had reported; nothing where there is
  /// none.
  std::optional<runtime::Artefact> find(CompileReport &report) const;
  /// Whether the step runs code of the user's, which is checked whenever it is compiled or found.
  bool checksCode() const { return mustCheck; }
  /// Which part of the key differs from the nearest entry: "flags differ: -O2 → -O3".
  std::string missReason() const;
  /// That find() gave a step, or that it had to be compiled: for the counts.
  void count(bool found) const {
    cache.count(FileCache::steps, found ? FileCache::Event::hit : FileCache::Event::miss);
  }
  /// Until this process alone compiles the step.
  FileCache::Turn wait() const { return cache.wait(FileCache::steps, key); }
  runtime::Error store(const runtime::Artefact &artefact, const CompileReport &report) const;
  /// Puts these bytes in the entry's place.
  runtime::Error storeBytes(std::string_view bytes) const { return cache.store(FileCache::steps, key, bytes); }

  /// What the key is made of: a word each, its value, and that as it is shown to people.
  struct Part {
    std::string name, value, shown;
  };
  const std::vector<Part> &parts() const { return keyParts; }
  std::string file() const { return cache.fileOf(FileCache::steps, key); }

private:
  std::string header(const CompileReport &report) const;

  FileCache cache;
  std::string refused, key;
  bool mustCheck = false;
  std::vector<Part> keyParts;
  std::optional<NameTable> names;
};

} // namespace tcc
