// Our libraries that need libtorch: they are beside libprism_shim.so and are opened once a program
// turns out to use libtorch.
#pragma once

namespace prism::shim {

// dlopen, with local symbols, of `name` in the folder of the library that contains this code.
// nullptr when it cannot be opened: dlerror() says why.
void* OpenSibling(const char* name);

}  // namespace prism::shim
