#!/usr/bin/env bash
# Builds what is missing and writes dist/prism_emulator-VERSION-py3-none-manylinux_….whl. Options:
# --torch LIST: releases of torch to build for, or interpreters that have one, joined by commas.
cd "$(dirname "$0")"
set -euo pipefail

source launch/setup.sh
exec python3 launch/python/wheel.py "$@"
