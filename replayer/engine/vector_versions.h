// Put before a function that gains from the widest vectors that the machine has.
#pragma once

// Not under sanitisers: they instrument the code that chooses among the versions, which runs before
// they are initialised.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PRISM_VECTOR_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PRISM_VECTOR_VERSIONS
#endif
