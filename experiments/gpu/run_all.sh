#!/bin/sh
# All checks that need a GPU, the most telling first: see README.md.
# run_all.sh [--dry-run] [--out DIR] [--build DIR] [--only NAME,NAME] [--limit SECONDS]
#            [--archive FILE] [--again]
# Each program writes DIR/<name>.json part by part and goes on where an earlier call stopped.
# FILE gets DIR as a tar after each program. PYTHON: one with torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out="$root/build/gpu"
prism="$root/build"
[ -x "$prism/bin/prism-emulate" ] || prism="$root/build/carried"
dry="" again="" only="" archive="" limit=590
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry="--dry-run" ;;
    --again) again="--again" ;;
    --out) out=$2; shift ;;
    --build) prism=$2; shift ;;
    --only) only=$2; shift ;;
    --limit) limit=$2; shift ;;
    --archive) archive=$2; shift ;;
    *) sed -n '3,4s/^# *//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
started=$(date +%s)
python=${PYTHON:-"$root/.venv/bin/python"}
[ -x "$python" ] || python=python3
mkdir -p "$out"

# As launch/setup.sh does.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# What collect.sh brought.
if [ -d "$prism/libraries" ]; then
  export LD_LIBRARY_PATH="$prism/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export OPAL_PREFIX="$prism/libraries/openmpi" PATH="$prism/libraries/openmpi/bin:$PATH"
  export OMPI_MCA_mca_base_component_path="$OPAL_PREFIX/lib/openmpi3"
  export PYTHONPATH="$prism/python${PYTHONPATH:+:$PYTHONPATH}"
fi

if [ -e "$prism/probe/libprism_probe.so" ]; then
  probe="$prism/probe/libprism_probe.so"
else
  echo "== build: holds and kernels of known occupancy"
  probe="$root/build/gpu_programs/libprism_probe.so"
  cmake -S "$here" -B "$root/build/gpu_programs" -DPython3_EXECUTABLE="$python" \
    > "$out/build.log" 2>&1 &&
    cmake --build "$root/build/gpu_programs" >> "$out/build.log" 2>&1 ||
    { cat "$out/build.log" >&2; exit 1; }
fi
"$python" - "$probe" "$here"/programs/*.py << 'END'
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

# run NAME SECONDS [OPTION]: within its own limit and what is left of the whole. An error that stays
# with a process (75) leaves the parts behind it to a new one.
run() {
  case ",${only:-$1}," in *",$1,"*) ;; *) return 0 ;; esac
  left=$((limit - $(date +%s) + started))
  if [ "$left" -lt 15 ]; then
    echo "run_all.sh: no time left for $1${3:+ $3}; the same command goes on there" >&2
    failed=1
    return 0
  fi
  echo "== $1${3:+ $3}"
  code=75
  for try in 1 2 3; do
    [ "$code" -ne 75 ] || {
      code=0
      timeout -k 5 "$([ "$2" -lt "$left" ] && echo "$2" || echo "$left")" \
        "$python" -u "$here/programs/$1.py" $dry $again ${3:-} --root "$root" --build "$prism" \
        --probe "$probe" --out "$out/$1.json" > "$out/last.log" 2>&1 || code=$?
      cat "$out/last.log"
      cat "$out/last.log" >> "$out/$1.log"
    }
  done
  [ -z "$archive" ] || tar -C "$out" --exclude '*.part' -czf "$archive" .
  [ "$code" -eq 0 ] || {
    echo "run_all.sh: $1 ends with $code" >&2
    failed=1
  }
}

failed=0
run virtual_truth 150
run kernel_times 240
run constants 60
run holds 70
run pass_through 240
run hybrid 400
[ -n "$dry" ] || [ ! -e "$out/virtual_truth.json" ] || run virtual_truth 200 --complete
exit $failed
