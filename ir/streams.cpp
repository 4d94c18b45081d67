#include "ir/streams.h"

#include "ir/Streams.cpp.inc"
