// Kernels of a GPU, launched by the driver itself, and the tensors that they take: what Python would look at in every
// call is laid out once.
#pragma once
#include <nanobind/nanobind.h>

namespace ndpool {

// Puts `CudaTensors` and `KernelLaunch` into the module.
void bind_cuda(nanobind::module_ &m);

}  // namespace ndpool
