// Which calls of the driver are seen, for those who ask for its functions by name.
#pragma once

namespace prism::shim {

// The shim's function where it sees that call, else `real`. `name` as cuGetProcAddress takes it.
void* SeenDriverCall(const char* name, void* real);

}  // namespace prism::shim
