#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job; options are passed on. Safe to repeat.
cd "$(dirname "$0")"
source launch/setup.sh

target=(--target-gpus 8192)
for option in "$@"; do
  [[ $option == -- ]] && break
  [[ $option == --@(target[-_]gpus|graph|config)?(=*) ]] && target=()
done
command=(mpirun -n 4 build/bin/prism-emulate "${target[@]}" "$@")
printf '%s\n' "${command[*]}" >&2
exec "${command[@]}"
