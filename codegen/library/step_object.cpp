// The artefact's bytes and tables are written as assembly, the functions as LLVM IR; LLVM assembles both into one
// object.
#include "codegen/library/step_object.h"
#include "c_api/program.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/library/header.h"
#include "codegen/library/step_library.h"
#include "codegen/memory_file.h"
#include "runtime/elf_section.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/SourceMgr.h"

using llvm::StringRef;

namespace tcc {
namespace {

using runtime::Error;
using runtime::Expected;

/// A kernel in a code object: its name and where its code begins.
struct PlacedKernel {
  std::string symbol;
  uint64_t offset, bytes;
  bool operator<(const PlacedKernel &other) const { return symbol < other.symbol; }
};

/// The functions of a shared object that can be used where its bytes lie: no addresses are filled in by the dynamic
/// linker, and each function's place in memory is its place in the file.
Expected<std::vector<PlacedKernel>> placedKernels(StringRef code) {
  auto file = llvm::object::ELFFile<llvm::object::ELF64LE>::create(code);
  if (!file)
    return Error("kernels cannot be read: " + llvm::toString(file.takeError()));
  auto sections = file->sections();
  if (!sections)
    return Error("kernels cannot be read: " + llvm::toString(sections.takeError()));
  std::vector<PlacedKernel> kernels;
  for (const auto &section : *sections) {
    if (section.sh_type == llvm::ELF::SHT_RELA || section.sh_type == llvm::ELF::SHT_REL)
      return Error("the kernels' code has addresses that are known at load time alone, so no library can hold it");
    if (section.sh_type != llvm::ELF::SHT_DYNSYM)
      continue;
    auto symbols = file->symbols(&section);
    auto names = file->getStringTableForSymtab(section, *sections);
    if (!symbols || !names)
      return Error("the kernels' names cannot be read");
    for (const auto &symbol : *symbols) {
      if (symbol.getType() != llvm::ELF::STT_FUNC || symbol.st_shndx == llvm::ELF::SHN_UNDEF)
        continue;
      auto name = symbol.getName(*names);
      auto home = file->getSection(symbol.st_shndx);
      if (!name || !home)
        return Error("the kernels' names cannot be read");
      if ((*home)->sh_addr != (*home)->sh_offset)
        return Error("the kernels' code lies elsewhere in memory than in its file; compile the step again");
      kernels.push_back({name->str(), symbol.st_value, symbol.st_size});
    }
  }
  llvm::sort(kernels);
  return kernels;
}

/// The assembly of a step's data: its artefact, and tables as c_api/program.h declares them.
class DataText {
public:
  /// `path` has the artefact's bytes.
  DataText(const runtime::Artefact &step, StringRef bytes, StringRef path)
      : step(step), bytes(bytes), path(path), name(libraryPrefix(step)) {}

  Expected<std::string> text();

private:
  Error addPart(size_t index, const std::vector<size_t> &offsets);

  const runtime::Artefact &step;
  StringRef bytes, path;
  std::string name;
  std::string code, tables, parts, strings;
};

std::string quote(StringRef text) {
  std::string result;
  llvm::raw_string_ostream os(result);
  os << '"';
  os.write_escaped(text, /*UseHexEscapes=*/false);
  os << '"';
  return result;
}

Error DataText::addPart(size_t index, const std::vector<size_t> &offsets) {
  const runtime::TargetCode &part = step.targets[index];
  const std::string label = ".L" + name + "_kernels" + std::to_string(index);
  size_t count = 0;
  const StringRef named = StringRef(part.target).split(':').second;
  const std::string machine = named.empty() ? "native" : named.str();
  const bool isHost = part.target == "cpu" || StringRef(part.target).starts_with("cpu:");
  if (isHost && !part.plan.kernels.empty()) {
    tables += label + ":\n";
    for (auto [module, offset] : llvm::enumerate(offsets)) {
      auto kernels = placedKernels(part.code[module]);
      if (!kernels)
        return kernels.error();
      for (const PlacedKernel &kernel : *kernels) {
        const std::string symbol = name + "." + machine + "." + kernel.symbol;
        const std::string place = ".L" + name + "_artefact+" + std::to_string(offset + kernel.offset);
        code += ".type " + quote(symbol) + ",@function\n.set " + quote(symbol) + "," + place + "\n.size " +
                quote(symbol) + "," + std::to_string(kernel.bytes) + "\n";
        const std::string nameLabel = label + "_" + std::to_string(count++);
        tables += ".quad " + nameLabel + "," + place + "\n";
        strings += nameLabel + ": .asciz " + quote(kernel.symbol) + "\n";
      }
    }
  }
  parts += ".quad " + (count ? label : "0") + "," + std::to_string(count) + "\n";
  return {};
}

Expected<std::string> DataText::text() {
  auto offsets = runtime::codeOffsets(bytes);
  if (!offsets)
    return offsets.error();
  for (auto [i, list] : llvm::enumerate(*offsets))
    if (Error error = addPart(i, list))
      return error;
  const std::string artefact = ".L" + name + "_artefact";
  return ".section " + std::string(runtime::stepSection) + name + ",\"ax\",@progbits\n.p2align 6\n" + artefact +
         ":\n.incbin " + quote(path) + "\n" + code + ".section .rodata." + name + ",\"a\",@progbits\n" + strings +
         ".section .data.rel.ro." + name + ",\"aw\",@progbits\n.p2align 3\n" + tables + ".L" + name + "_parts:\n" +
         parts + name + ".program:\n.long " + std::to_string(c::programVersion) + "," +
         std::to_string(step.targets.size()) + "\n.quad " + artefact + "," + std::to_string(bytes.size()) + ",.L" +
         name + "_parts," + std::to_string(signatureOf(step)) + "\n.text\n";
}

/// "ptr %0, i64 %1" of "i32 ptr i64".
std::string parametersOf(StringRef signature) {
  llvm::SmallVector<StringRef> types;
  signature.split(types, ' ');
  std::string list;
  for (size_t i = 1; i < types.size(); ++i)
    list += (i > 1 ? ", " : "") + types[i].str() + " %a" + std::to_string(i);
  return list;
}

/// define RESULT @name(PARAMETERS) { calls @callee(ARGUMENTS) }
std::string forwarder(StringRef name, StringRef callee, StringRef signature, StringRef first = "") {
  const StringRef result = signature.split(' ').first;
  const std::string parameters = parametersOf(signature);
  const std::string arguments = (first + (first.empty() || parameters.empty() ? "" : ", ") + parameters).str();
  const std::string call = "tail call " + result.str() + " @" + callee.str() + "(" + arguments + ")";
  return "define " + result.str() + " @" + name.str() + "(" + parameters + ") nounwind uwtable {\n  " +
         (result == "void" ? call + "\n  ret void" : "%r = " + call + "\n  ret " + result.str() + " %r") + "\n}\n";
}

/// The types of "i32 ptr i64" as a declaration's: "ptr, i64".
std::string declaration(StringRef callee, StringRef signature) {
  llvm::SmallVector<StringRef> types;
  signature.split(types, ' ');
  return "declare " + types.front().str() + " @" + callee.str() + "(" + llvm::join(llvm::drop_begin(types), ", ") +
         ")\n";
}

constexpr StringRef createSignature = "i32 ptr ptr ptr", createForSignature = "i32 ptr i64 ptr ptr",
                    runSignature = "i32 ptr ptr ptr";

/// The functions of a step, in LLVM IR.
std::string functionsText(const std::string &name) {
  const std::string program = "@\"" + name + ".program\"";
  std::string text = program + " = external hidden global i8\n";
  text += "define ptr @" + name + "_program() nounwind uwtable {\n  ret ptr " + program + "\n}\n";
  text += forwarder(name + "_create", "tcc_create", "i32 ptr ptr", "ptr " + program);
  text += forwarder(name + "_create_for", "tcc_create_for", "i32 i64 ptr ptr", "ptr " + program);
  text += forwarder(name + "_run", "tcc_run_structs", runSignature);
  for (const StepFunction &function : forwardedFunctions())
    text += forwarder(name + "_" + function.suffix.str(), "tcc_" + function.suffix.str(), function.signature);
  return text;
}

/// Every function of the runtime that a step calls, and its signature.
std::vector<std::pair<std::string, StringRef>> calledFunctions() {
  std::vector<std::pair<std::string, StringRef>> list = {
      {"tcc_create", createSignature}, {"tcc_create_for", createForSignature}, {"tcc_run_structs", runSignature}};
  for (const StepFunction &function : forwardedFunctions())
    list.emplace_back("tcc_" + function.suffix.str(), function.signature);
  return list;
}

/// Assembles LLVM IR, and text beside it, for the least CPU.
Expected<std::string> assemble(StringRef ir, StringRef assembly) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, problem, context);
  if (!module)
    return Error("the library's functions cannot be read: " + problem.getMessage().str());
  cpu::Target target;
  target.cpu = llvm::Triple(LLVM_DEFAULT_TARGET_TRIPLE).isX86() ? "x86-64" : "generic";
  auto machine = cpu::createMachine(target);
  if (!machine)
    return machine.error();
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  module->setModuleInlineAsm(assembly);
  return cpu::generateCode(*module, **machine, /*assembly=*/false);
}

} // namespace

Expected<std::string> stepObject(const runtime::Artefact &step) {
  auto bytes = runtime::serializeArtefact(step);
  if (!bytes)
    return bytes.error();
  MemoryFile file; // for the assembler
  if (Error problem = file.create(*bytes))
    return problem;
  auto data = DataText(step, *bytes, file.path()).text();
  if (!data)
    return data.error();
  std::string ir = functionsText(libraryPrefix(step));
  for (const auto &[name, signature] : calledFunctions())
    ir += declaration(name, signature);
  return assemble(ir, *data);
}

Expected<std::string> runtimeImportObject() {
  std::string ir;
  for (const auto &[name, signature] : calledFunctions())
    ir += "define void @" + name + "() {\n  ret void\n}\n";
  return assemble(ir, "");
}

} // namespace tcc
