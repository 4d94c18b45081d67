# How lit runs the pass tests: each .mlir file's RUN lines, with the driver under test as %tcc.
# Parameters: tcc (the program), tools (the folder of FileCheck and not), output (where lit writes).
import os
import lit.formats

config.name = "passes"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["output"]
config.substitutions.append(("%tcc", lit_config.params["tcc"]))
config.environment["PATH"] = lit_config.params["tools"] + os.pathsep + os.environ["PATH"]
config.environment["NO_COLOR"] = "1"
