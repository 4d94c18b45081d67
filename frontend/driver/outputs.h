// Where tcc's outputs go.
#pragma once
#include "frontend/driver/options.h"
#include "runtime/error.h"

namespace tcc::driver {

/// Fails where an output is a file that is read or another output; opens nothing.
runtime::Error checkFiles(const Options &options);

/// Where an emission with a file is written without -o: INPUT.o, or where it is numbered INPUT.sm_90a.0.cubin, in the
/// current folder.
std::string codePath(const std::string &input, const CodeEmission &emission, const std::string &architecture = {},
                     size_t module = 0);
/// Writes what is shown of kernels: text of all targets to `output` (stdout where it is empty), else a file each, whose
/// names are printed where they are numbered. Throws Error.
void writeCode(llvm::ArrayRef<EmittedCode> codes, const CodeEmission &emission, const std::string &input,
               const std::string &output);
/// Where the record of -fsave-optimization-record goes.
std::string optimizationRecordFile(const CompilerFlags &flags, const std::string &input);
/// Where the time trace of `input` goes.
std::string timeTracePath(const Options &options, const std::string &input);
/// Where -save-temps puts the stage of `input` that has this suffix: DIR/INPUT.ll.
std::string stagePath(const std::string &folder, const std::string &input, const std::string &suffix);
/// Where -fdump-dir= puts the dumps of `input`.
std::string dumpPath(const std::string &folder, const std::string &input);

/// Writes `bytes` to `path`, whole or not at all; "" and "-" are stdout. Throws Error.
void writeResult(const std::string &path, llvm::StringRef bytes);

/// Compact JSON with an element a line where a list or an object is longer than 100 bytes, and a newline at its end.
std::string indentedJson(llvm::StringRef compact);

/// Flushes stdout at the end of the program; a failure is said in one line. The exit status is at least 1 then.
int finishStdout(int status, const Options &options);

} // namespace tcc::driver
