// Where the generated stubs of names that are not implemented end up (generate_stubs.py).
#include "shim/session.h"

extern "C" {

// `code` is the library's own "not supported"; it comes back in a register that serves every
// integer and pointer return type.
long prism_shim_refuse(const char* name, long code);
const char* prism_shim_refuse_text(const char* name, long code);

long prism_shim_refuse(const char* name, long code) {
  prism::shim::Refuse(name);
  return code;
}

// Stands in for functions that explain an error code in words.
const char* prism_shim_refuse_text(const char* name, long /*code*/) {
  prism::shim::Refuse(name);
  return "not supported by the virtual device";
}
}
