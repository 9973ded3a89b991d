#!/bin/sh
# All checks that need a GPU, the most informative first: see README.md.
# run_all.sh [--dry-run] [--out DIR] [--build DIR] [--only NAME,NAME] [--limit SECONDS]
#            [--archive FILE] [--again] [--stand-in LIBRARY]
# Each program writes DIR/<name>.json part by part and continues where an earlier call stopped.
# FILE gets DIR as a tar after each program. LIBRARY: the tests' GPU takes the place of one. PYTHON:
# one with torch. Exits with 0 if all was measured and every goal met, 4 if a goal was missed, 1 if
# something failed or there was no time for it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out="$root/build/gpu"
prism="$root/build"
[ -x "$prism/bin/prism-emulate" ] || prism="$root/build/carried"
dry="" again="" only="" archive="" stand_in="" limit="" patience=1
programs="constants virtual_truth recorded_times kernel_times holds pass_through hybrid"
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry="--dry-run" ;;
    --again) again="--again" ;;
    --out) out=$2; shift ;;
    --build) prism=$2; shift ;;
    --only) only=$2; shift ;;
    --limit) limit=$2; shift ;;
    --archive) archive=$2; shift ;;
    --stand-in) stand_in=$2; patience=10; shift ;;
    *) sed -n '3,4s/^# *//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ ! -d "$prism" ] || prism=$(cd "$prism" && pwd)
for name in $(echo "$only" | tr , ' '); do
  case " $programs " in *" $name "*) ;; *)
    echo "run_all.sh: --only $name: not one of $programs" >&2
    exit 2 ;;
  esac
done
if [ -n "$stand_in" ]; then
  [ -e "$stand_in" ] && [ -e "$prism/lib/prism-cuda/preload.txt" ] || {
    echo "run_all.sh: --stand-in $stand_in: build it: cmake --build build --target fake_gpu" \
      "prism_device_facades" >&2
    exit 2
  }
  stand_in=$(realpath "$stand_in")
fi
limit=${limit:-$((560 * patience))}
started=$(date +%s)
# Stacks of Python where the time is over, of the GPU where it takes an exception.
export PYTHONFAULTHANDLER=1 CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1
python=${PYTHON:-"$root/.venv/bin/python"}
[ -x "$python" ] || python=python3
mkdir -p "$out" "$root/build"
export CUDA_COREDUMP_FILE="$out/gpu_stacks.%p" TRITON_CACHE_DIR="$out/triton"
export TORCHINDUCTOR_COMPILE_THREADS=1 # no compiler beside what is timed

. "$root/launch/open_mpi.sh"
# What collect.sh has collected.
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
  exec 9> "$root/build/gpu_programs.lock"
  flock 9 # of several that are started at once, as by ctest, one builds
  cmake -S "$here" -B "$root/build/gpu_programs" -DPython3_EXECUTABLE="$python" \
    > "$out/build.log" 2>&1 &&
    cmake --build "$root/build/gpu_programs" >> "$out/build.log" 2>&1 ||
    { cat "$out/build.log" >&2; exit 1; }
  exec 9>&-
fi
"$python" - "$probe" "$here"/programs/*.py << 'END'
import ctypes, sys
ctypes.CDLL(sys.argv[1])
for path in sys.argv[2:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")
print(f"  {sys.argv[1]} can be loaded, {len(sys.argv) - 2} programs can be read")
END

# The programs' torch calls the shim and that the stand-in; Prism preloads what its ranks need.
on_gpu() {
  if [ -n "$stand_in" ]; then
    PRISM_TEST_DEVICE="$stand_in" PRISM_TORCH_LIBRARIES="$(echo "$prism"/lib/torch-*)" \
      LD_LIBRARY_PATH="$prism/lib/prism-cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
      LD_PRELOAD="$(sed "s#^#$prism/lib/#; s#:#:$prism/lib/#g" "$prism/lib/prism-cuda/preload.txt")" "$@"
  else
    "$@"
  fi
}

if [ -z "$dry" ] && ! on_gpu "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "run_all.sh: no GPU here; --dry-run shows what would be run" >&2
  exit 5
fi

left() {
  echo $((limit - $(date +%s) + started))
}

# run NAME SECONDS [OPTION]: within its own limit and what is left of the whole. After an error that
# persists in the process (75) a new one runs the remaining parts.
run() {
  case ",${only:-$1}," in *",$1,"*) ;; *) return 0 ;; esac
  echo "== $1${3:+ $3}"
  until=$(($(date +%s) + $2 * patience))
  code=75
  for try in 1 2 3; do
    seconds=$((until - $(date +%s)))
    [ "$seconds" -lt "$(left)" ] || seconds=$(left)
    [ "$code" -eq 75 ] || break
    if [ "$seconds" -lt 15 ]; then
      echo "run_all.sh: no time left for $1${3:+ $3}; the same command goes on there" >&2
      failed=1
      return 0
    fi
    code=0
    : > "$out/last.log"
    tail -s 0.1 -f "$out/last.log" & # what is left of a program may keep a pipe open
    shown=$!
    on_gpu timeout -s ABRT -k 5 "$seconds" \
      "$python" -u "$here/programs/$1.py" $dry $again ${3:-} --root "$root" --build "$prism" \
      --probe "$probe" --out "$out/$1.json" > "$out/last.log" 2>&1 || code=$?
    sleep 0.3
    kill "$shown"
    wait "$shown" 2> /dev/null || :
    cat "$out/last.log" >> "$out/$1.log"
    [ -z "$archive" ] || {
      tar -C "$out" --exclude '*.part' --exclude ./triton -czf "$archive.part" . &&
        mv "$archive.part" "$archive"
    }
  done
  case "$code" in
    0) ;;
    4) missed=1 ;;
    *) echo "run_all.sh: $1 ends with $code" >&2; failed=1 ;;
  esac
}

# Beside a program that times nothing, and without the GPU.
start_compiler() {
  on_gpu timeout -k 5 $((60 * patience)) "$python" "$here/programs/compile_ahead.py" $dry \
    --root "$root" --build "$prism" --probe "$probe" --out "$out/compile_ahead" \
    > "$out/compile_ahead.log" 2>&1 &
  compiler=$!
}
await_compiler() {
  wait "$compiler" || echo "run_all.sh: no Triton kernels compiled ahead" >&2
  sed 's/^/  compile_ahead: /' "$out/compile_ahead.log"
}

failed=0 missed=0
ahead=""
case ",${only:-constants}," in *,constants,*) ahead=1 ;; esac
[ -z "$ahead" ] || start_compiler
run constants 60
[ -z "$ahead" ] || await_compiler
run virtual_truth 240
run recorded_times 60
run kernel_times 300
run holds 100
run pass_through 240
run hybrid 400
for name in virtual_truth constants; do
  [ -n "$dry" ] || [ ! -e "$out/$name.json" ] || run "$name" 200 --complete
done
[ -n "$dry" ] || "$python" "$here/programs/goals.py" "$out" || failed=1
[ "$failed" -eq 0 ] || exit 1
[ "$missed" -eq 0 ] || exit 4
