// What tests without MLIR include.
#pragma once
#include "cmake/precompiled/standard.h"
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
