// Whole compiled steps on disk: what makes two of them one, what an entry holds, and why there was none.
#pragma once
#include "codegen/compile_session.h"

namespace tcc {

/// A captured function as the cache knows it, before passes change it. An entry depends on the function, the target,
/// the options that make code, the CPU and this build; not on where in files its ops stand. Names of values and scopes
/// are part of it, for labels are made of them.
class StepCache {
public:
  StepCache(mlir::ModuleOp captured, const CompileOptions &options, const Target &target);

  /// Why nothing is looked up and nothing kept; empty where the step can be.
  const std::string &refusal() const { return refused; }
  /// The entry, with the places of this function, and what compiling it had reported; nothing where there is none.
  std::optional<runtime::Artefact> find(CompileReport &report) const;
  /// Which part of the key differs from the nearest entry: "flags differ: -O2 → -O3".
  std::string missReason() const;
  /// Until this process alone compiles the step.
  FileCache::Turn wait() const { return cache.wait(FileCache::steps, key); }
  runtime::Error store(const runtime::Artefact &artefact, const CompileReport &report) const;
  /// Puts these bytes in the entry's place.
  runtime::Error storeBytes(std::string_view bytes) const { return cache.store(FileCache::steps, key, bytes); }

  /// What the key is made of: a word each, and its value.
  struct Part {
    std::string name, value;
  };
  const std::vector<Part> &parts() const { return keyParts; }
  std::string file() const { return cache.fileOf(FileCache::steps, key); }

private:
  std::string header(const CompileReport &report) const;

  FileCache cache;
  std::string refused, key;
  std::vector<Part> keyParts;
  std::vector<runtime::SourceLocation> places; // of the function's ops, each once, in order
};

} // namespace tcc
