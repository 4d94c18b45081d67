// What tests with JSON and without MLIR include.
#pragma once
#include "cmake/precompiled/json.h"
#include "cmake/precompiled/test.h"
