// Which calls of the driver are seen, for those who ask for its functions by name.
#pragma once

namespace prism::shim {

// The shim's function where it sees that call in the version that is asked for, else `real`. `name`
// and `version` as cuGetProcAddress takes them.
void* SeenDriverCall(const char* name, int version, void* real);

}  // namespace prism::shim
