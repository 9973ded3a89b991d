#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; options are passed to ctest. Safe to repeat.
cd "$(dirname "$0")"
source launch/setup.sh

exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
