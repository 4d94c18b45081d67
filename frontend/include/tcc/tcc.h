// The installed spelling of the frontend: #include <tcc/tcc.h>.
#pragma once
#include "frontend/tcc.h"
