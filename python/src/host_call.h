// Functions of Python as code of custom ops: ops that tcc does not know run by the library that does.
#pragma once
#include "frontend/compile_graph.h"
#include "python/src/tensors.h"

namespace tcc::python {

/// Keeps `function`, which is called as function(*operands, *results) over tensors in the step's memory; it writes the
/// results. The layouts say what each is.
HostOp addPythonFunction(Ref function, std::vector<Layout> operands, std::vector<Layout> results);

/// Layouts from Python, as of Layout::of().
std::vector<Layout> layouts(PyObject *list);

/// Lets ops whose library is `<name>` be what `resolve(symbol)` gives: (function, operands, results) as above.
void addPythonProvider(const std::string &name, std::string version, Ref resolve);

} // namespace tcc::python
