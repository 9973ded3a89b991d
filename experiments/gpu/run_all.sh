#!/bin/sh
# All checks that need a GPU, one after the other, in less than ten minutes: see README.md.
# run_all.sh [--dry-run] [--out DIR]; each program writes DIR/<name>.json. PYTHON: one with torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out="$root/build/gpu"
dry=""
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry="--dry-run" ;;
    --out) out=$2; shift ;;
    *) echo "usage: run_all.sh [--dry-run] [--out DIR]" >&2; exit 2 ;;
  esac
  shift
done
python=${PYTHON:-"$root/.venv/bin/python"}
[ -x "$python" ] || python=python3
mkdir -p "$out"
build="$root/build/gpu_programs"

echo "== build: holds and kernels of known occupancy"
cmake -S "$here" -B "$build" -DPython3_EXECUTABLE="$python" > "$out/build.log" 2>&1 &&
  cmake --build "$build" >> "$out/build.log" 2>&1 || { cat "$out/build.log" >&2; exit 1; }
"$python" - "$build/libprism_probe.so" "$here"/programs/*.py << 'END'
import ctypes, sys
ctypes.CDLL(sys.argv[1])
for path in sys.argv[2:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")
print(f"  {sys.argv[1]} can be loaded, {len(sys.argv) - 2} programs can be read")
END

if [ -z "$dry" ] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "run_all.sh: no GPU here; --dry-run shows what would be run" >&2
  exit 5
fi
# Limits in seconds; 580 in all. One that fails does not keep the others from running.
failed=0
for entry in constants:40 holds:60 kernel_times:200 virtual_truth:120 pass_through:70 hybrid:90; do
  name=${entry%:*}
  echo "== $name"
  timeout "${entry#*:}" "$python" "$here/programs/$name.py" $dry --root "$root" \
    --probe "$build/libprism_probe.so" --out "$out/$name.json" || {
    echo "run_all.sh: $name failed with code $?" >&2
    failed=1
  }
done
exit $failed
