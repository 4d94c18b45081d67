// What tests with MLIR include.
#pragma once
#include "cmake/precompiled/mlir.h"
#include "mlir/Parser/Parser.h"
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
