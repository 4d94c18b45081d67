// The classes of tcc.item and tcc.print, by which a .graph hands values to the host. Passes know these ops by traits
// and interfaces alone.
#pragma once
#include "ir/dialect.h"

#define GET_OP_CLASSES
#include "ir/HostOps.h.inc"
