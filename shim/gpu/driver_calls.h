// Which driver calls are intercepted, for callers that look up its functions by name.
#pragma once

namespace prism::shim {

// The shim's function if it intercepts that call in the requested version, else `real`. `name` and
// `version` as cuGetProcAddress takes them.
void* SeenDriverCall(const char* name, int version, void* real);

}  // namespace prism::shim
