// Objects become an archive or a shared library.
#include "codegen/library/step_library.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/library/header.h"
#include "codegen/library/step_object.h"
#include "codegen/library/system_libraries.h"
#include "runtime/files.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using llvm::StringRef;
using llvm::Twine;

namespace tcc {
namespace {

using runtime::Error;
using runtime::Expected;

/// A shared library of the runtime's name with its functions, empty ones, for the linker to see.
Expected<std::string> runtimeImports() {
  auto object = runtimeImportObject();
  if (!object)
    return object;
  return cpu::link({"-shared", "-soname=libtcc_runtime.so.0"}, {*object});
}

/// The folders where a library of ours can be: those beside this program's.
std::vector<std::string> libraryFolders() {
  const std::string program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  const StringRef above = llvm::sys::path::parent_path(llvm::sys::path::parent_path(program));
  std::vector<std::string> folders;
  for (StringRef below : {"lib", "lib/x86_64-linux-gnu"}) {
    llvm::SmallString<256> path(above);
    llvm::sys::path::append(path, below);
    folders.push_back(path.str().str());
  }
  return folders;
}

bool hasFile(const std::string &folder, StringRef name) {
  return llvm::sys::fs::exists(folder + "/" + name);
}

Expected<std::string> findStepRuntime() {
  const std::vector<std::string> folders = libraryFolders();
  for (const std::string &folder : folders)
    if (hasFile(folder, "libtcc_step.a"))
      return folder + "/libtcc_step.a";
  return Error("the runtime cannot be put inside: libtcc_step.a is neither in '" + folders.front() + "' nor in '" +
               folders.back() + "'; it comes with tcc's development files");
}

/// Where the loader looks for the runtime before it looks where the system's libraries are.
std::string runtimeFolders() {
  std::string list = "$ORIGIN";
  for (const std::string &folder : libraryFolders())
    if (hasFile(folder, "libtcc_runtime.so.0") && !StringRef(folder).starts_with("/usr/lib"))
      list += ":" + folder;
  return list;
}

Expected<std::string> sharedLibrary(llvm::ArrayRef<std::string> objects, llvm::ArrayRef<runtime::Artefact> steps,
                                    const LibraryOptions &options) {
  std::string exports = "{\n  global:\n";
  for (const runtime::Artefact &step : steps)
    exports += "    " + libraryPrefix(step) + "_*;\n";
  exports += "  local: *;\n};\n";
  // A pool's threads and handlers at exit outlive dlclose(), so a library that was loaded once stays. Without
  // --eh-frame-hdr an exception of a runtime inside would find no handler and end the program.
  std::vector<std::string> flags = {"-shared",
                                    "--eh-frame-hdr",
                                    "--no-undefined",
                                    "--hash-style=gnu",
                                    "--build-id",
                                    "-Bsymbolic",
                                    "--gc-sections",
                                    "--as-needed",
                                    "-z",
                                    "relro",
                                    "-z",
                                    "now",
                                    "-z",
                                    "nodelete"};
  if (!options.name.empty())
    flags.push_back("-soname=" + options.name);
  std::vector<std::string> inputs(objects);
  if (!options.hasRuntime) {
    auto imports = runtimeImports();
    if (!imports)
      return imports;
    inputs.push_back(std::move(*imports));
    flags.push_back("-rpath=" + runtimeFolders());
  } else {
    auto runtime = findStepRuntime();
    if (!runtime)
      return runtime;
    flags.push_back(*runtime);
    const std::vector<std::string> libraries = systemLibraries();
    flags.insert(flags.end(), libraries.begin(), libraries.end());
  }
  return cpu::link(flags, inputs, {exports});
}

Expected<std::string> archiveOf(llvm::ArrayRef<std::string> objects, llvm::ArrayRef<runtime::Artefact> steps) {
  std::vector<llvm::NewArchiveMember> members;
  std::vector<std::string> names;
  for (const runtime::Artefact &step : steps)
    names.push_back(libraryPrefix(step) + ".o");
  for (auto [object, name] : llvm::zip_equal(objects, names))
    members.emplace_back(llvm::MemoryBufferRef(object, name));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab,
                                            llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return Error("cannot make the archive: " + llvm::toString(archive.takeError()));
  return (*archive)->getBuffer().str();
}

} // namespace

std::optional<LibraryKind> libraryKind(StringRef path) {
  const StringRef suffix = llvm::sys::path::extension(path);
  if (suffix == ".o")
    return LibraryKind::object;
  if (suffix == ".a")
    return LibraryKind::archive;
  if (suffix == ".so")
    return LibraryKind::shared;
  return std::nullopt;
}

Expected<std::string> makeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const LibraryOptions &options) {
  std::vector<std::string> objects;
  for (const runtime::Artefact &step : steps) {
    auto object = stepObject(step);
    if (!object)
      return object;
    objects.push_back(std::move(*object));
  }
  switch (options.kind) {
  case LibraryKind::object:
    return objects.size() == 1 ? Expected<std::string>(std::move(objects.front())) : cpu::link({"-r"}, objects);
  case LibraryKind::archive:
    return archiveOf(objects, steps);
  case LibraryKind::shared:
    return sharedLibrary(objects, steps, options);
  }
  llvm_unreachable("unknown kind of library");
}

std::string headerPath(StringRef library) {
  llvm::SmallString<256> path(library);
  llvm::sys::path::replace_extension(path, ".h");
  return path.str().str();
}

void sortByNeeds(runtime::Artefact &step) {
  auto count = [](const runtime::TargetCode &part) {
    return part.needs.empty() ? 0 : StringRef(part.needs).count(',') + 1;
  };
  llvm::stable_sort(step.targets, [&](const auto &a, const auto &b) { return count(a) > count(b); });
}

Error writeLibrary(llvm::ArrayRef<runtime::Artefact> steps, const std::string &path, const LibraryOptions &options) {
  const std::string header = headerPath(path);
  if (auto there = runtime::readFile(header); there && !StringRef(*there).contains(writtenBy))
    return Error("'" + header + "' is there and was not written by tcc; the library's header would replace it");
  const Expected<std::string> text = libraryHeader(steps, llvm::sys::path::filename(header));
  if (!text)
    return text.error();
  LibraryOptions called = options;
  called.name = llvm::sys::path::filename(path).str();
  const Expected<std::string> library = makeLibrary(steps, called);
  if (!library)
    return library.error();
  // Both are written before either has its name.
  const std::pair<const std::string *, const std::string *> contents[] = {{&path, &*library}, {&header, &*text}};
  std::vector<runtime::AtomicFile> files;
  for (const auto &[name, bytes] : contents) {
    auto file = runtime::AtomicFile::create(*name);
    if (!file)
      return file.error();
    if (Error problem = file->write(*bytes))
      return problem;
    files.push_back(std::move(*file));
  }
  for (runtime::AtomicFile &file : llvm::reverse(files)) // an old library refuses a new header
    if (Error problem = file.commit())
      return problem;
  return {};
}

} // namespace tcc
