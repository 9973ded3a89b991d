#!/bin/sh
# Collects what was built here for a machine that has torch and a GPU but nothing to build Prism with:
# collect.sh [DIR] fills DIR (build/carried), which run_all.sh finds there. Under 64 MiB.
#   bin, lib        Prism's programs and libraries, stripped
#   libraries       what they link and no torch wheel contains, Open MPI with its components
#   probe           libprism_probe.so and the kernels of known occupancy, by run_all.sh --dry-run
#   python          megatron-core
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build="$root/build"
to=${1:-"$build/carried"}
rm -rf "$to"
mkdir -p "$to/bin" "$to/lib" "$to/libraries/openmpi/bin" "$to/libraries/openmpi/lib" "$to/probe" "$to/python"

cp "$build"/bin/prism "$build"/bin/prism-emulate "$to/bin"
mkdir "$to/lib/prism"
cp -r "$build"/lib/libprism_*.so "$build"/lib/torch-* "$build/lib/prism-cuda" "$to/lib"
cp -r "$build/lib/prism/bin" "$build/lib/prism/python" "$to/lib/prism"
find "$to/bin" "$to/lib" -type f ! -name '*.txt' ! -name '*.py' -exec strip --strip-unneeded {} +

"$root/experiments/gpu/run_all.sh" --dry-run --out "$build/gpu_dry_run" > /dev/null
cp "$build"/gpu_programs/libprism_probe.so "$build"/gpu_programs/*.fatbin "$to/probe"

# What every Linux has, and what comes with torch, is left out.
needs() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -v -E \
    '/(libc|libm|libdl|librt|libutil|libpthread|libstdc\+\+|libgcc_s|libgomp|libz|libudev)\.so|/site-packages/'
}
components=$(find /usr/lib -type d -name openmpi3 -print -quit)
cp "$(readlink -f "$(command -v orterun)")" "$to/libraries/openmpi/bin/mpirun"
cp "$(readlink -f "$(command -v orted)")" "$to/libraries/openmpi/bin/orted"
cp -r "$components" "$to/libraries/openmpi/lib/openmpi3"
# Fabrics and resource managers, whose libraries are large.
( cd "$to/libraries/openmpi/lib/openmpi3" && rm -f -- *ucx* *ofi* *openib* *psm* *slurm* *flux* *romio* )
# Open MPI itself is loaded only under mpirun.
mpi=$(find /usr/lib -name libmpi.so.40 -print -quit)
cp "$mpi" "$to/libraries"
needs "$mpi" "$build"/bin/prism "$build"/bin/prism-emulate "$build"/lib/torch-*/prism-workload \
  "$to"/libraries/openmpi/bin/* "$to"/libraries/openmpi/lib/*/*.so | while read -r library; do
  cp "$library" "$to/libraries"
done

for package in "$root"/.venv/lib/python3*/site-packages/megatron; do
  [ -d "$package" ] && cp -rL "$package" "$to/python/"
done
find "$to/python" -name __pycache__ -prune -exec rm -rf {} +
du -sm "$to" | awk '{ printf "collect.sh: %s MiB in %s\n", $1, $2 }'
