#include "codegen/library/header.h"
#include "codegen/graph_digest.h"
#include "codegen/library/runtime_header.h"
#include "codegen/library/step_library.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using llvm::StringRef;

namespace tcc {
namespace {

constexpr StepFunction functions[] = {
    {"destroy", "void", "tcc_step *step", "void ptr"},
    {"last_error", "const char *", "void", "ptr"},
    {"count", "size_t ", "const tcc_step *step, int kind", "i64 ptr i32"},
    {"describe", "int ", "const tcc_step *step, int kind, size_t index, tcc_tensor_info *tensor",
     "i32 ptr i32 i64 ptr"},
    {"find", "int ", "const tcc_step *step, int kind, const char *name, size_t *index", "i32 ptr i32 ptr ptr"},
    {"get_state", "int ", "tcc_step *step, const char *name, void *to, size_t bytes", "i32 ptr ptr ptr i64"},
    {"set_state", "int ", "tcc_step *step, const char *name, const void *from, size_t bytes", "i32 ptr ptr ptr i64"},
    {"state_data", "void *", "tcc_step *step, const char *name", "ptr ptr ptr"},
    {"save_states", "int ", "tcc_step *step, const char *path", "i32 ptr ptr"},
    {"load_states", "int ", "tcc_step *step, const char *path", "i32 ptr ptr"},
    {"planned_bytes", "size_t ", "const tcc_step *step", "i64 ptr"},
    {"peak_bytes", "size_t ", "const tcc_step *step", "i64 ptr"},
    {"target", "const char *", "const tcc_step *step", "ptr ptr"},
};

StringRef cType(runtime::DType dtype) {
  switch (dtype) {
  case runtime::DType::f32:
    return "float";
  case runtime::DType::bf16:
  case runtime::DType::f16:
    return "uint16_t";
  case runtime::DType::f8e4m3:
  case runtime::DType::f8e5m2:
  case runtime::DType::i1:
    return "uint8_t";
  case runtime::DType::i32:
    return "int32_t";
  case runtime::DType::i64:
    return "int64_t";
  }
  llvm_unreachable("unknown element type");
}

/// Words that cannot be a member's name in C or C++, and macros of compilers and of the headers that step.h includes.
bool isReserved(StringRef word) {
  static const llvm::StringSet<> words = [] {
    llvm::SmallVector<StringRef> list;
    StringRef("alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor "
              "bool break case catch char char8_t char16_t char32_t class co_await co_return co_yield compl "
              "concept const const_cast consteval constexpr constinit continue decltype default delete do "
              "double dynamic_cast else enum explicit export extern false float for friend goto if inline int "
              "int8_t int16_t int32_t int64_t linux long mutable namespace new noexcept not not_eq NULL nullptr "
              "offsetof operator or or_eq private protected public register reinterpret_cast requires restrict "
              "return short signed size_t sizeof static static_assert static_cast struct struct_size switch "
              "template this thread_local throw true try typedef typeid typename typeof uint8_t uint16_t "
              "uint32_t uint64_t union unix unsigned using virtual void volatile wchar_t while xor xor_eq")
        .split(list, ' ');
    llvm::StringSet<> set;
    set.insert_range(list);
    return set;
  }();
  return words.contains(word);
}

std::string shapeText(const runtime::TensorSpec &spec) {
  std::string text = runtime::name(spec.dtype).data() + std::string("[");
  for (auto [i, size] : llvm::enumerate(spec.shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The name in a comment, which it must not end.
std::string quoted(const std::string &name) {
  std::string text;
  for (char c : name)
    text += c == '*' || c == '/' || static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return text;
}

/// A struct with one pointer a tensor, in the plan's order.
void printStruct(llvm::raw_ostream &os, StringRef name, const std::vector<runtime::TensorSpec> &specs, bool written) {
  os << "struct " << name << " {\n  size_t struct_size; /* sizeof(struct " << name << ") */\n";
  llvm::StringMap<unsigned> uses;
  for (const runtime::TensorSpec &spec : specs) {
    std::string member = identifier(spec.name);
    if (isReserved(member))
      member += '_';
    while (const unsigned before = uses[member]++)
      member += "_" + std::to_string(before + 1);
    os << "  " << (written ? "" : "const ") << cType(spec.dtype) << " *" << member << "; /* " << quoted(spec.name)
       << ": " << shapeText(spec) << " */\n";
  }
  os << "};\n";
}

void printStep(llvm::raw_ostream &os, const runtime::Artefact &step) {
  const std::string name = libraryPrefix(step);
  const std::string macro = StringRef(name).upper();
  const runtime::Plan &plan = step.targets.front().plan;
  os << "/* The step `" << quoted(plan.name) << "`, compiled for";
  for (auto [i, target] : llvm::enumerate(step.targets))
    os << (i ? ", " : " ") << quoted(target.target);
  os << ".\n\n   Its states, which live in a step between its runs:\n";
  for (const runtime::TensorSpec &spec : plan.states)
    os << "     " << quoted(spec.name) << ": " << shapeText(spec) << "\n";
  if (plan.states.empty())
    os << "     none\n";
  os << "*/\n#define " << macro << "_INPUTS " << plan.inputs.size() << "\n#define " << macro << "_OUTPUTS "
     << plan.outputs.size() << "\n#define " << macro << "_STATES " << plan.states.size() << "\n#define " << macro
     << "_PLANNED_BYTES " << plan.plannedBytes() << "LL\n#define " << macro << "_SIGNATURE UINT64_C("
     << llvm::format_hex(signatureOf(step), 18) << ")\n\n";
  os << "/* What a run reads. */\n";
  printStruct(os, name + "_inputs", plan.inputs, false);
  os << "\n/* What a run gives; a null pointer: this one is not wanted. */\n";
  printStruct(os, name + "_outputs", plan.outputs, true);
  os << "\nconst tcc_program *" << name << "_program(void);\n"
     << "int " << name << "_create(const tcc_options *options, tcc_step **step);\n"
     << "int " << name << "_create_for(uint64_t signature, const tcc_options *options, tcc_step **step);\n"
     << "#define " << name << "_create(options, step) " << name << "_create_for(" << macro
     << "_SIGNATURE, options, step)\n"
     << "int " << name << "_run(tcc_step *step, const struct " << name << "_inputs *inputs, const struct " << name
     << "_outputs *outputs);\n";
  for (const StepFunction &function : functions)
    os << function.result.rtrim() << (function.result.ends_with("*") ? "" : " ") << name << "_" << function.suffix
       << "(" << function.parameters << ");\n";
}

} // namespace

llvm::ArrayRef<StepFunction> forwardedFunctions() {
  return functions;
}

uint64_t signatureOf(const runtime::Artefact &step) {
  const runtime::Plan &plan = step.targets.front().plan;
  std::string text;
  for (const auto *list : {&plan.inputs, &plan.outputs, &plan.states}) {
    text += '|';
    for (const runtime::TensorSpec &spec : *list)
      text += spec.name + '\0' + shapeText(spec) + '\0';
  }
  uint64_t signature = 0;
  StringRef(hexDigest(text)).take_front(16).getAsInteger(16, signature);
  return signature;
}

std::string identifier(StringRef text) {
  std::string name;
  for (char c : text)
    name += llvm::isAlnum(c) || c == '_' ? c : '_';
  return name.empty() || llvm::isDigit(name.front()) ? "_" + name : name;
}

std::string libraryPrefix(const runtime::Artefact &artefact) {
  return identifier(artefact.targets.front().plan.name);
}

runtime::Expected<std::string> libraryHeader(llvm::ArrayRef<runtime::Artefact> steps, StringRef file) {
  llvm::StringSet<> names;
  for (const runtime::Artefact &step : steps) {
    const std::string name = libraryPrefix(step);
    if (!names.insert(StringRef(name).upper()).second) // macros are in upper case
      return runtime::Error("two steps are called `" + name +
                            "`, but perhaps for the case of letters; a library can have "
                            "one of them; the name of the graph's function is the step's");
    if (StringRef(name).starts_with("tcc_") || name == "tcc")
      return runtime::Error("a step called `" + name +
                            "` would define the runtime's own names; another name of the "
                            "graph's function is needed");
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  std::string guard = "TCC_STEP_" + StringRef(identifier(file)).upper();
  for (const runtime::Artefact &step : steps) // files of one name may have other steps
    guard += "_" + StringRef(libraryPrefix(step)).upper();
  os << "/* " << file << ": " << writtenBy
     << " The functions of this file's steps, and tcc_runtime.h, which says how they\n"
     << "   are used: NAME_create is tcc_create with the step's program, NAME_run is tcc_run_structs, and each other\n"
     << "   NAME_call is tcc_call. A library that has the runtime inside (tcc --static) has the NAME_ functions alone. "
        "*/\n"
     << "#ifndef " << guard << "\n#define " << guard << "\n\n"
     << runtimeHeader() << "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  for (const runtime::Artefact &step : steps) {
    os << '\n';
    printStep(os, step);
  }
  os << "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return text;
}

} // namespace tcc
