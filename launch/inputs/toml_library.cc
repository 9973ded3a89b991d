// The library toml++, compiled from its headers: Debian has it as a shared library only, and a
// program that is copied elsewhere may not find that.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
