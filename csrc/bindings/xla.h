// The engine for XLA: handlers that a compiled program calls, without Python and without a copy.
#pragma once
#include <nanobind/nanobind.h>

namespace ndpool {

// Puts `xla_handlers()` into the module: one capsule for each operation, by its name.
void bind_xla(nanobind::module_ &m);

}  // namespace ndpool
