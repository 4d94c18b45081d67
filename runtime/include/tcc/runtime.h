// The installed spelling of the runtime: #include <tcc/runtime.h> reads artefacts and runs them, without a compiler.
#pragma once
#include "runtime/executable.h"
