// Libraries of ours that need libtorch: they lie beside libprism_shim.so and are opened once a
// program has turned out to use libtorch.
#pragma once

namespace prism::shim {

// dlopen of `name` in the folder of the library that this code is in, symbols local. nullptr when
// it cannot be opened: dlerror() says why.
void* OpenSibling(const char* name);

}  // namespace prism::shim
