// tcc.item and tcc.print: what a .graph hands to the host. Passes know them by traits and interfaces alone.
#pragma once
#include "ir/dialect.h"

#define GET_OP_CLASSES
#include "ir/HostOps.h.inc"
