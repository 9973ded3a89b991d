# What run.sh and test.sh share; sourced, from the repository's root. Installs what the programs need,
# configures and builds them; for tests more is installed by the functions below. Quick if nothing is
# missing: a package database query, a file test and an empty build.
set -euo pipefail

. launch/open_mpi.sh

debian_packages=(
  g++ cmake ninja-build python3-venv
  libopenmpi-dev openmpi-bin libprotobuf-dev protobuf-compiler libfmt-dev
  libtomlplusplus-dev libzstd-dev zlib1g-dev libxxhash-dev nlohmann-json3-dev rapidjson-dev
  libjemalloc-dev libsqlite3-dev
)
test_debian_packages=(
  clang-format-19 libgtest-dev libgmock-dev librapidcheck-dev libsimgrid-dev
)
torch_version=2.11.0
# What the programs under experiments/ import besides torch.
python_packages=(
  numpy==2.4.6 megatron-core==0.16.1 transformers==5.23.0 accelerate==1.15.0 torchtitan==0.2.2
  deepspeed==0.19.8
)

say() { printf 'prism set-up: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 5
}

# install_debian_packages PACKAGE...
install_debian_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  # Another apt-get may be running: wait for it.
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  { "${apt[@]}" update -qq && "${apt[@]}" install -y -qq "${missing[@]}"; } >&2 ||
    fail "apt-get could not install ${missing[*]}; install them by hand and run this again"
}

# Written last by pip.
torch_is_installed() {
  compgen -G ".venv/lib/python3*/site-packages/torch-$torch_version*.dist-info/INSTALLER" >/dev/null
}

# The wheel brings libtorch with headers, and NVIDIA's libraries whose names the shim replaces. What
# needs neither is built meanwhile: some minutes both.
install_torch() {
  torch_is_installed && return
  say "installing torch $torch_version from PyPI into .venv (some minutes)"
  local failed="pip could not install torch $torch_version into .venv; remove .venv and run this again"
  python3 -m venv .venv >&2 || fail "$failed"
  .venv/bin/pip install -q "torch==$torch_version" >&2 &
  local pip=$!
  trap "kill $pip 2>/dev/null || :" EXIT
  configure
  build prism_verbs prism_search
  wait "$pip" || fail "$failed"
  trap - EXIT
  configure
}

# With torch pinned to its version.
install_python_packages() {
  local missing=() package folder
  for package in "${python_packages[@]}"; do
    folder=${package%%==*}
    compgen -G ".venv/lib/python3*/site-packages/${folder//-/_}-${package##*==}.dist-info" \
      >/dev/null || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]} from PyPI into .venv"
  .venv/bin/pip install -q "torch==$torch_version" "${missing[@]}" >&2 ||
    fail "pip could not install ${missing[*]} into .venv; install them by hand and run this again"
}

# For the test of its mark, which is skipped without.
install_pytest() {
  compgen -G ".venv/lib/python3*/site-packages/pytest-9.2.0.dist-info" >/dev/null && return
  say "installing pytest from PyPI into .venv"
  .venv/bin/pip install -q pytest==9.2.0 >&2 ||
    say "pip could not install pytest; the test of Prism's mark for it is skipped"
}

# A version a year older in addition: experiments/10_older_megatron_core puts its folder first.
install_older_megatron_core() {
  local folder=.venv/megatron-core-0.11.0
  [ -d "$folder" ] && return
  say "installing megatron-core 0.11.0 from PyPI into $folder"
  { rm -rf "$folder.part" && mkdir "$folder.part" &&
    .venv/bin/pip install -q --no-deps --target "$folder.part" megatron-core==0.11.0 &&
    mv "$folder.part" "$folder"; } >&2 ||
    fail "pip could not install megatron-core 0.11.0 into $folder; run this again"
}

# configure OPTION...: the first time as a release, without tests; later with what changes.
configure() {
  [ -f build/build.ninja ] || set -- -DCMAKE_BUILD_TYPE=Release -DPRISM_BUILD_TESTS=OFF \
    "-DPRISM_TORCH_DIR=$(echo "$PWD"/.venv/lib/python3*/site-packages)/torch" "$@"
  say "configuring"
  cmake -S . -B build -G Ninja "$@" >build-configure.log 2>&1 || {
    cat build-configure.log >&2
    fail "cmake could not configure"
  }
  mv build-configure.log build/configure.log
}

# build TARGET...
build() { ninja -C build --quiet "$@" >&2 || fail "the build failed, see above"; }

install_debian_packages "${debian_packages[@]}"
install_torch
[ -f build/build.ninja ] || configure
build prism_programs
