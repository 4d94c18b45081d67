// Everything that a program needs to trace, compile and train.
#pragma once
#include "frontend/array.h"
#include "frontend/compile.h"
#include "frontend/control.h"
#include "frontend/custom.h"
#include "frontend/nn.h"
#include "frontend/optim.h"
#include "frontend/scope.h"
#include "frontend/tensor.h"
