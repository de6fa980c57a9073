// The old name of what stands in plan/call.h.
#pragma once
#include "plan/call.h"
