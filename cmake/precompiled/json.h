// What files that read or write JSON include. Apart from standard.h: each file that is given nlohmann/json makes anew
// what its inline functions need, which takes a second.
#pragma once
#include "cmake/precompiled/standard.h"
#include <nlohmann/json.hpp>
