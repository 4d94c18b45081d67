// The C++ classes of Streams.td: ops that are in flight while others run.
#pragma once
#include "ir/dialect.h"

#include "ir/Streams.h.inc"
