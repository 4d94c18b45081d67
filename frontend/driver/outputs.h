// Where tcc's outputs go.
#pragma once
#include "frontend/driver/options.h"
#include "runtime/error.h"

namespace tcc::driver {

/// Fails if an output is a file that is read, or another output. Opens nothing.
runtime::Error checkFiles(const Options &options);

/// The file of an emission that is written without -o, in the current folder: INPUT.o, or INPUT.sm_90a.0.cubin if the
/// emission is numbered.
std::string codePath(const std::string &input, const CodeEmission &emission, const std::string &architecture = {},
                     size_t module = 0);
/// Writes what is shown of kernels. Text of all targets goes to `output` (to stdout if that is empty). Other forms go
/// to a file each, whose names are printed if they are numbered. Throws Error.
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

/// The JSON with one element on each line in lists and objects longer than 100 bytes, and with a newline at its end.
std::string indentedJson(llvm::StringRef compact);

/// Flushes stdout at the end of the program and gives the exit status. A failure is reported in one line, and the
/// status is then at least 1.
int finishStdout(int status, const Options &options);

} // namespace tcc::driver
