// verifyArtefact: the last stage of -fverify-each. It compares the artefact itself with the interpreter, since places,
// launches and code are not part of the IR that is compared after each pass.
#pragma once
#include "codegen/compile_session.h"

namespace tcc {

/// Runs `artefact`, made from `captured` with `options`, in checked mode on random and adversarial inputs. Every result
/// must be within the tolerance of compare.h. If the interpreter would need more than `mostSeconds` at the given sizes,
/// it compiles again with smaller sizes for `?`, and a remark on the module says so. If the graph itself fixes sizes
/// that are too large, or if no device of this machine can be used, nothing is run, and a remark says that.
runtime::Error verifyArtefact(mlir::ModuleOp captured, const runtime::Artefact &artefact, const CompileOptions &options,
                              double mostSeconds = 60);

} // namespace tcc
