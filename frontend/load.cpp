// A loaded step is an executable and the states that it works on: the program's own ones where it gives them by name,
// new ones otherwise.
#include "frontend/load.h"
#include "frontend/run_step.h"
#include "frontend/state_files.h"
#include <algorithm>

namespace tcc {

struct LoadedStep::Impl {
  std::string path;
  std::unique_ptr<runtime::Executable> executable;
  std::vector<State> states;

  const runtime::Plan &plan() const { return executable->plan(); }
};

namespace {

std::string typeText(runtime::DType dtype, const Shape &shape) {
  return std::string(runtime::name(dtype)) + shape.text();
}

/// The program's state of this name, or a new one.
State stateFor(const runtime::TensorSpec &spec, const LoadOptions &options, const std::string &path) {
  const auto known =
      std::ranges::find_if(options.states, [&](const State &state) { return state.name() == spec.name; });
  if (known == options.states.end())
    return State(spec.name, Shape(spec.shape), spec.dtype);
  if (known->dtype() != spec.dtype || !(known->shape() == Shape(spec.shape)))
    throw Error("state '" + spec.name + "' is " + typeText(known->dtype(), known->shape()) + ", in " + path + " " +
                typeText(spec.dtype, Shape(spec.shape)));
  return *known;
}

} // namespace

LoadedStep::LoadedStep(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
LoadedStep::LoadedStep(LoadedStep &&) noexcept = default;
LoadedStep &LoadedStep::operator=(LoadedStep &&) noexcept = default;
LoadedStep::~LoadedStep() = default;

LoadedStep load(const std::string &path, LoadOptions options) {
  auto impl = std::make_unique<LoadedStep::Impl>();
  impl->path = path;
  auto artefact = runtime::readArtefact(path);
  if (!artefact)
    throw Error(artefact.error().message());
  auto executable = runtime::Executable::load(std::move(*artefact), {options.threads, options.checked, options.device});
  if (!executable)
    throw Error(path + ": " + executable.error().message());
  impl->executable = std::move(*executable);
  for (const State &given : options.states)
    if (std::ranges::find(impl->plan().states, given.name(), &runtime::TensorSpec::name) == impl->plan().states.end())
      throw Error(path + " has no state '" + given.name() + "'");
  for (const runtime::TensorSpec &spec : impl->plan().states)
    impl->states.push_back(stateFor(spec, options, path));
  return LoadedStep(std::move(impl));
}

std::vector<Array> LoadedStep::call(std::span<const Array> arguments) {
  const std::vector<runtime::TensorSpec> &specs = impl->plan().inputs;
  if (arguments.size() != specs.size())
    throw Error(impl->path + " is called with " + std::to_string(arguments.size()) + " arguments; it takes " +
                std::to_string(specs.size()));
  for (size_t i = 0; i < specs.size(); ++i)
    if (arguments[i].dtype() != specs[i].dtype || !(arguments[i].shape() == Shape(specs[i].shape)))
      throw Error("argument '" + specs[i].name + "' of " + impl->path + " is " +
                  typeText(specs[i].dtype, Shape(specs[i].shape)) + "; it is called with " +
                  typeText(arguments[i].dtype(), arguments[i].shape()));
  auto results = runStep(*impl->executable, impl->states, arguments);
  if (!results)
    throw Error(impl->path + ": " + results.error().message());
  return std::move(*results);
}

const std::vector<runtime::TensorSpec> &LoadedStep::inputs() const {
  return impl->plan().inputs;
}
const std::vector<runtime::TensorSpec> &LoadedStep::outputs() const {
  return impl->plan().outputs;
}
const std::vector<State> &LoadedStep::states() const {
  return impl->states;
}

State LoadedStep::state(const std::string &name) const {
  const auto known = std::ranges::find_if(impl->states, [&](const State &state) { return state.name() == name; });
  if (known == impl->states.end())
    throw Error(impl->path + " has no state '" + name + "'");
  return *known;
}

void LoadedStep::save(const std::string &path) const {
  saveStates(path, impl->states);
}
void LoadedStep::load(const std::string &path, Others others) {
  loadStates(path, impl->states, others);
}
int64_t LoadedStep::plannedBytes() const {
  return impl->executable->plannedBytes();
}
runtime::Executable &LoadedStep::executable() const {
  return *impl->executable;
}

} // namespace tcc
