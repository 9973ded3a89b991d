// Code that gains by the widest vectors that the machine has: before a function.
#pragma once

// Sanitisers instrument what chooses among the versions, before they are ready themselves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PRISM_VECTOR_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PRISM_VECTOR_VERSIONS
#endif
