// Ops in flight: the interface of Streams.td.
#pragma once
#include "ir/dialect.h"

#include "ir/Streams.h.inc"
