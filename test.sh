#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; options are passed to ctest. Safe to repeat.
cd "$(dirname "$0")"
source launch/setup.sh

install_debian_packages "${test_debian_packages[@]}"
install_python_packages
install_pytest
install_older_megatron_core
grep -qx PRISM_BUILD_TESTS:BOOL=ON build/CMakeCache.txt || configure -DPRISM_BUILD_TESTS=ON
build all

exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
