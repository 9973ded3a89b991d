// The functions that the stand-ins of unimplemented names call (launch/process/facades.h).
#include "shim/session.h"

extern "C" {

// `code` is the library's own "not supported"; it is returned in a register that serves every
// integer and pointer return type.
long prism_shim_refuse(const char* name, long code);
const char* prism_shim_refuse_text(const char* name, long code);

long prism_shim_refuse(const char* name, long code) {
  prism::shim::Refuse(name);
  return code;
}

// Replaces functions that return the text of an error code.
const char* prism_shim_refuse_text(const char* name, long /*code*/) {
  prism::shim::Refuse(name);
  return "not supported by the virtual device";
}
}
