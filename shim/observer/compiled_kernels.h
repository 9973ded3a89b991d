// Kernels that torch.compile generates, each with the tensors that it is given: in the program's
// Python, since libtorch only knows the whole region that was compiled.
#pragma once

namespace prism::shim {

// Does nothing in a program without Python.
void DescribeCompiledKernels();

}  // namespace prism::shim
