// load(): a training step that was compiled before (Function::exportLibrary, tcc -o), without the model's code.
#pragma once
#include "frontend/array.h"
#include "frontend/tensor_files.h"
#include <concepts>
#include <memory>
#include <string>
#include <vector>

namespace tcc {

namespace runtime {
class Device;
class Executable;
} // namespace runtime

struct LoadOptions {
  int threads = 0;      ///< 0: as many as CPUs may be used, at most what the step was compiled for
  bool checked = false; ///< fill buffers with NaN before every run
  /// The device that runs the step; null: a CPU device of its own.
  std::shared_ptr<runtime::Device> device = {};
  /// States of the program, which the step uses for its states of the same names. Its other states are new, and zeros.
  std::vector<State> states = {};
};

/// A compiled step that was loaded. Move only; it takes one call at a time.
class LoadedStep {
public:
  LoadedStep(LoadedStep &&) noexcept;
  LoadedStep &operator=(LoadedStep &&) noexcept;
  ~LoadedStep();

  /// Runs one step. States are updated in place, and the results are new Arrays. Throws Error for arguments of other
  /// shapes or types than inputs() has, and if the step fails.
  std::vector<Array> call(std::span<const Array> arguments);
  template <std::convertible_to<Array>... Arrays>
  std::vector<Array> operator()(const Arrays &...arguments) {
    return call(std::vector<Array>{Array(arguments)...});
  }

  const std::vector<runtime::TensorSpec> &inputs() const;
  const std::vector<runtime::TensorSpec> &outputs() const;
  const std::vector<State> &states() const;
  /// The state of this name. Throws Error if the step has none.
  State state(const std::string &name) const;
  /// Call saveStates() and loadStates() with states().
  void save(const std::string &path) const;
  void load(const std::string &path, Others others = Others::refused);

  /// The bytes that the plan gives to states, inputs, outputs and all values between them.
  int64_t plannedBytes() const;
  runtime::Executable &executable() const;

private:
  friend LoadedStep load(const std::string &path, LoadOptions options);
  struct Impl;
  explicit LoadedStep(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Loads a library (step.so, step.o) or an artefact (step.tcc); its bytes are verified first. If it has parts for
/// several machines, the first that this machine can run is taken. Throws Error for a file that holds no whole step, a
/// machine that lacks what its code needs, and a state of another shape or type than the step's.
LoadedStep load(const std::string &path, LoadOptions options = {});

} // namespace tcc
