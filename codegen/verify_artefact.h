// The last stage of -fverify-each: the artefact itself against the interpreter, since places, launches and code are no
// part of the IR that is compared after each pass.
#pragma once
#include "codegen/compile_session.h"

namespace tcc {

/// Runs `artefact`, made from `captured` with `options`, in checked mode on random and adversarial inputs; every result
/// must be within the tolerance of compare.h. At the sizes given, or where the interpreter would need over
/// `mostSeconds` at smaller ones of `?`, for which it compiles again; a remark on the module says so, and where the
/// graph fixes sizes that are too large, or no device of this machine can be used, that nothing was run.
runtime::Error verifyArtefact(mlir::ModuleOp captured, const runtime::Artefact &artefact, const CompileOptions &options,
                              double mostSeconds = 60);

} // namespace tcc
