#include "codegen/library/header.h"
#include "codegen/library/runtime_header.h"
#include "codegen/library/step_library.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
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

/// Words that cannot be a member's name in C or C++.
bool isReserved(StringRef word) {
  static const llvm::StringSet<> words = {
      "alignas",  "alignof", "and",      "asm",      "auto",     "bool",      "break",    "case",       "catch",
      "char",     "class",   "concept",  "const",    "continue", "decltype",  "default",  "delete",     "do",
      "double",   "else",    "enum",     "explicit", "export",   "extern",    "false",    "float",      "for",
      "friend",   "goto",    "if",       "inline",   "int",      "long",      "mutable",  "namespace",  "new",
      "not",      "nullptr", "operator", "or",       "private",  "protected", "public",   "register",   "requires",
      "restrict", "return",  "short",    "signed",   "sizeof",   "static",    "struct",   "switch",     "template",
      "this",     "throw",   "true",     "try",      "typedef",  "typeid",    "typename", "typeof",     "union",
      "unsigned", "using",   "virtual",  "void",     "volatile", "while",     "xor",      "struct_size"};
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
     << "_PLANNED_BYTES " << plan.plannedBytes() << "LL\n\n";
  os << "/* What a run reads. */\n";
  printStruct(os, name + "_inputs", plan.inputs, false);
  os << "\n/* What a run gives; a null pointer: this one is not wanted. */\n";
  printStruct(os, name + "_outputs", plan.outputs, true);
  os << "\nconst tcc_program *" << name << "_program(void);\n"
     << "int " << name << "_create(const tcc_options *options, tcc_step **step);\n"
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
    if (!names.insert(name).second)
      return runtime::Error("two steps are called `" + name +
                            "`, and a library can have one of them; the name of the "
                            "graph's function is the step's");
    if (StringRef(name).starts_with("tcc_") || name == "tcc")
      return runtime::Error("a step called `" + name +
                            "` would define the runtime's own names; another name of the "
                            "graph's function is needed");
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  const std::string guard = "TCC_STEP_" + StringRef(identifier(file)).upper();
  os << "/* " << file
     << ": written by tcc. The functions of this file's steps, and tcc_runtime.h, which says how they\n"
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
