#!/usr/bin/env bash
# Runs the programs of this folder under several releases of torch, each in an environment of its
# own from PyPI, and writes a table of what came of it:
#   tests/matrix/run.sh [--torch LIST] [--kinds LIST] [--environments DIR] [--out FILE] [--keep]
# --torch: minor versions; the newest patch of each is taken, and the one of .venv from there.
# --environments: where environments are kept and looked for, as DIR/torch-2.8. Without it each is
# removed after its runs. --keep: the runs' output folders stay, and their place is printed.
# Exit code 0 if all run, 1 if one does not; "skipped: REASON" where nothing can be installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/open_mpi.sh

releases="2.6 2.8 2.9 2.11 2.13 2.15" kinds="ddp fsdp2 compiled pipeline"
environments= out=/dev/stdout keep=
while [ $# -gt 0 ]; do
  case $1 in
    --torch) releases=$2 && shift 2 ;;
    --kinds) kinds=$2 && shift 2 ;;
    --environments) environments=$(realpath -m "$2") && shift 2 ;;
    --out) out=$(realpath -m "$2") && shift 2 ;;
    --keep) keep=1 && shift ;;
    *) echo "$0: $1 is not an option; they are in its first lines" >&2 && exit 2 ;;
  esac
done
releases=${releases//,/ } kinds=${kinds//,/ }

work=$(mktemp -d)
trap '[ -n "$keep" ] && echo "kept: $work" >&2 || rm -rf "$work"' EXIT
say() { printf 'matrix: %s\n' "$*" >&2; }

pip_install() {  # PYTHON PACKAGE...
  local python=$1
  shift
  if command -v uv >/dev/null; then
    uv pip install -q --python "$python" "$@" >&2
  else
    "$python" -m pip install -q "$@" >&2
  fi
}

# The interpreter of a release, installed if it is not there; kept in $python.
provide() {
  local own=.venv/bin/python folder=${environments:-$work}/torch-$1
  python=$folder/bin/python
  if "$own" -c "import importlib.metadata as m, sys
sys.exit(not m.version('torch').startswith('$1.'))" 2>/dev/null; then
    python=$PWD/$own
    return
  fi
  [ -x "$python" ] && return
  mkdir -p "$(dirname "$folder")"
  local free
  free=$(df --output=avail -BG "$(dirname "$folder")" | tail -1 | tr -dc 0-9)
  if [ "$free" -lt 10 ]; then
    echo "skipped: an environment takes up to 8 GB, and $(dirname "$folder") has $free GB left"
    exit 0
  fi
  say "installing torch $1 from PyPI"
  python3 -m venv "$folder" >&2
  # Triton 3.2 imports setuptools and does not ask for it.
  pip_install "$python" "torch==$1.*" numpy setuptools && return
  local reached=
  PIP_FIND_LINKS= "$python" -m pip download -q --no-deps -d "$work" numpy >&2 && reached=1
  rm -rf "$folder"
  [ -z "$reached" ] && echo "skipped: PyPI cannot be reached" && exit 0
  say "torch $1 could not be installed"
  return 1
}

failed=0
for release in $releases; do
  folder=$work/runs/$release
  mkdir -p "$folder"
  provide "$release" || { failed=1 && continue; }
  for kind in $kinds; do
    say "torch $release, $kind"
    status=0
    # Forked ranks may share by accident what ranks that start by themselves have to agree on.
    cold=
    [ "$kind" = ddp ] && cold=--cold-start
    start=$(date +%s%N)
    TORCHINDUCTOR_CACHE_DIR=$work/inductor-$release timeout 1200 build/bin/prism-emulate \
      --gpus 16 --sandbox-ranks 0,5 --quiet $cold --out "$folder/$kind" -- \
      "$python" "tests/matrix/$kind.py" >"$folder/$kind.log" 2>&1 || status=$?
    # What Python has to do for absent ranks, it did.
    ! grep -qs rendezvous_python_failed "$folder/$kind/summary.json" || status=1
    echo "$status $((($(date +%s%N) - start) / 1000000000))" >"$folder/$kind.status"
    [ "$status" -eq 0 ] || failed=1
  done
  rm -rf "$work/inductor-$release"
  [ -n "$environments" ] || rm -rf "$work/torch-$release"
done

python3 tests/matrix/table.py build/bin/prism "$work/runs" "$kinds" >"$work/table.md"
cat "$work/table.md" >"$out"
exit $failed
