// Functions of Python as code of custom ops: ops that tcc does not know run by the library that does.
#pragma once
#include "frontend/compile_graph.h"
#include "python/src/tensors.h"

namespace tcc::python {

/// Keeps `function`, which is called as function(*operands, *results) over tensors in the step's memory; it writes the
/// results. The layouts say what each is.
HostOp addPythonFunction(Ref function, std::vector<Layout> operands, std::vector<Layout> results);

} // namespace tcc::python
