#!/usr/bin/env bash
# Gets everything that building needs, and does nothing when all of it is there.
#   scripts/setup.sh            Debian packages, LibTorch 2.11.0 in .deps/python
#   scripts/setup.sh --tests    also what the tests compare against in Python (torchvision, TensorBoard, ...), Sphinx, and Java for TorchServe
#   --no-system                 leave Debian packages alone (another distribution, or you installed them yourself)
# What is installed and in which version: third_party/pins/. Never asks a question.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly pins=third_party/pins
readonly prefix=.deps/python
readonly python=$prefix/bin/python3
with_tests=no
with_system=yes

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "FAILED: $1"
  [ -z "${2:-}" ] || say "  try: $2"
  exit 1
}

read_options() {
  for option in "$@"; do
    case $option in
      --tests) with_tests=yes ;;
      --no-system) with_system=no ;;
      -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
      *) say "unknown option $option (--tests, --no-system)"; exit 2 ;;
    esac
  done
}

# Lines of lists without comments.
listed() { sed 's/#.*//; /^[[:space:]]*$/d' "$@"; }

# The names in Debian's lists that are not installed.
missing_packages() {
  local installed lists=("$pins/debian.txt")
  [ $with_tests = no ] || lists+=("$pins/debian_tests.txt")
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p')
  listed "${lists[@]}" | grep -vxF -e "$installed" || true
}

install_packages() {
  command -v dpkg-query >/dev/null || fail "this is not a Debian system" \
    "install the equivalents of $pins/debian.txt, then scripts/setup.sh --no-system"
  local missing root=()
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
      say "FAILED: ${#missing[@]} Debian packages are missing, and this user may not install them. As root:"
      printf '  apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
      exit 1
    fi
    root=(sudo -n)
  fi
  say "installing Debian packages: ${missing[*]}"
  local apt=(${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update >&2 || say "apt-get update failed; going on with the package lists that are here"
  "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2 || fail "apt-get install (its message is above)" \
    "apt-get install --no-install-recommends ${missing[*]}"
}

system_python() {
  local candidate
  for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer with the venv module" "apt-get install python3 python3-venv"
}

make_prefix() {
  "$python" -m pip --version >/dev/null 2>&1 && return
  local system
  system=$(system_python)
  say "making $prefix with $system"
  "$system" -m venv --clear "$prefix" || fail "$system -m venv $prefix" "apt-get install python3-venv; df -h . (LibTorch takes 2 GB)"
}

# pip_install LIST [OPTION...]
pip_install() {
  local list=$1
  shift
  say "installing $list"
  "$python" -m pip install --quiet --retries 5 --disable-pip-version-check --no-input "$@" -r "$list" >&2 || fail \
    "pip could not install $list (its message is above)" "again (downloads resume from pip's cache); df -h .; is the package index reachable?"
}

# The stamp says which pins the prefix was filled from; it is written after what was installed has been seen to work.
stamp_of() { cat "$@" | sha256sum | cut -c1-16; }
is_stamped() { [ -e "$prefix/.$1" ] && [ "$(<"$prefix/.$1")" = "$2" ]; }

install_libtorch() {
  local stamp
  stamp=$(stamp_of "$pins/libtorch.txt")
  is_stamped libtorch "$stamp" && compgen -G "$prefix/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" >/dev/null && return
  make_prefix
  pip_install "$pins/libtorch.txt" --no-deps
  "$python" scripts/verify_libtorch.py "$pins/libtorch.txt" >&2 || fail "the installed LibTorch does not work (message above)" \
    "rm -r $prefix; scripts/setup.sh"
  echo "$stamp" >"$prefix/.libtorch"
}

loads_torch() { "$python" -c 'import torch' 2>/dev/null; }

install_references() {
  local stamp
  stamp=$(stamp_of "$pins/libtorch.txt" "$pins/tests.txt" "$pins/docs.txt" "$pins/cuda.txt")
  is_stamped tests "$stamp" && return
  pip_install "$pins/tests.txt" --no-deps
  pip_install "$pins/docs.txt" --no-deps
  if ! loads_torch; then
    say "no CUDA 13 toolkit here, and stock PyTorch does not start without its libraries"
    pip_install "$pins/cuda.txt" --no-deps
  fi
  "$python" -c 'import torch, torchvision, transformers, timm, safetensors, tensorboard, jsonschema, yaml, sphinx, myst_parser, furo; print("setup: stock PyTorch", torch.__version__)' >&2 ||
    fail "stock PyTorch or Sphinx does not start (message above)" "rm -r $prefix; scripts/setup.sh --tests"
  echo "$stamp" >"$prefix/.tests"
}

read_options "$@"
[ $with_system = no ] || install_packages
mkdir -p .deps
exec 9>.deps/lock
flock 9  # two runs at once take turns
install_libtorch
[ $with_tests = no ] || install_references
say "all there"
