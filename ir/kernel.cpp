#include "ir/kernel.h"
