// Everything that a program needs to trace, compile and train.
//
// Threads. A Function takes one call at a time, from any thread. Different Functions may be traced, compiled and called
// at once, over the same custom ops and one device, whose steps take turns. A State or an Array that nobody writes may
// be used by several of them; one that a step assigns, that data() writes, or whose bytes arrive from a device with
// memory of its own, is for one thread at a time. A Tensor and a Scope belong to the thread that traces. All else that
// is kept for the whole process may be used by any thread.
#pragma once
#include "frontend/array.h"
#include "frontend/compile.h"
#include "frontend/control.h"
#include "frontend/custom.h"
#include "frontend/load.h"
#include "frontend/nn.h"
#include "frontend/optim.h"
#include "frontend/scope.h"
#include "frontend/state_files.h"
#include "frontend/tensor.h"
