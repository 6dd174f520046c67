#!/usr/bin/env bash
# Everything that must hold before a change lands, in a fresh environment (.venv-ci):
#
#   1. the README's own command, `make test`: without PyTorch, slow tests included;
#   2. the tests that asked PyTorch in it, with PyTorch;
#   3. kernels and compiled functions once more, on narrower vectors than this CPU's, but for tests
#      that say themselves how wide vectors are, or that devices work in groups: 1. asked the same.
#      Of passes only the one that asks how wide vectors are (tests/compile/test_layout.py says
#      that no other does), and whole networks and drawn programs with all of them;
#   beside 1. PyTorch's installation, then formatting, lint and types, and 3. in one process: tests
#   of 1. wait for what hangs, and what begins or ends leaves a core idle, too.
#
# So every test runs somewhere here, but for those marked perf or gpu. Oclgrind is installed where
# this may be done; elsewhere its tests say why they are skipped. All parts run, then the exit
# status says whether one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

install_oclgrind() {
    if ! command -v oclgrind >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends oclgrind
    fi
}

# What Python compiles is kept, but only what is imported: pip would compile all of PyTorch.
unset PYTHONDONTWRITEBYTECODE
export VENV=.venv-ci MAKEFLAGS=--no-print-directory PIP_COMPILE=0
torch=$VENV-torch
rm -rf "$VENV" "$torch"
# PoCL creates five files for each kernel, 56 KB of 8,000 or so, and asks the disk to keep them: in
# memory that is a tenth of a short kernel's build less. What clnet keeps itself is on disk.
gigabytes() { # that are free: in memory, and for files in it
    awk '/MemAvailable/ { print int($2 / 1e6) }' /proc/meminfo 2>/dev/null || echo 0
    df -k /dev/shm 2>/dev/null | awk 'NR == 2 { print int($4 / 1e6) }'
}
if mapfile -t free < <(gigabytes) && ((free[0] >= 8 && ${free[1]:-0} >= 4)) && [[ -w /dev/shm ]]; then
    POCL_CACHE_DIR=$(mktemp -d /dev/shm/clnet-pocl.XXXXXX)
    export POCL_CACHE_DIR
    trap 'rm -rf "$POCL_CACHE_DIR"' EXIT
fi
install_oclgrind &
simulator=$!
# Pip keeps one core busy with the first environment. The other one compiles clnet's modules, which
# two workers would do at once, and unpacks PyTorch's wheel, most of the work of its environment;
# where this Python has no pip, that comes later.
on_the_other_core() {
    "${PYTHON:-python3}" -m compileall -q clnet
    "${PYTHON:-python3}" -m venv --without-pip "$torch"
    "${PYTHON:-python3}" -m pip --python "$torch/bin/python" install --quiet --no-deps \
        "$(sed -n 's/^torch = \["\([^"]*\)".*/\1/p' pyproject.toml)"
}
on_the_other_core >/dev/null 2>&1 &
early=$!
make environment
wait "$simulator"

# PyTorch has an environment of its own, which sees all else in the first: it comes while the tests
# that must do without it run. Both have one pip.
with_pytorch() {
    while kill -0 "$early" 2>/dev/null; do sleep 0.2; done
    test -x "$torch/bin/python" || "$VENV/bin/python" -m venv --without-pip "$torch"
    ln -s "../../$VENV/bin/pip" "$torch/bin/pip"
    local packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    printf 'import site; site.addsitedir("%s")\n' "$("$VENV/bin/python" -c "$packages")" \
        >"$("$torch/bin/python" -c "$packages")/first.pth"
    make environment VENV="$torch" TORCH=1
}
with_pytorch >"$VENV/torch.log" 2>&1 &
pytorch=$!

failed=()
part() { # what it is called, and a command
    local start=$SECONDS
    echo "== $1"
    "${@:2}" || failed+=("$1")
    echo "== $1: $((SECONDS - start)) s"
}

native=$("$VENV/bin/python" -c "import clnet; print(clnet.device().traits.simd_width)")
narrow="tests/compile/test_layout.py tests/compile/test_bits.py tests/compile/test_training.py
    tests/compile/test_programs.py tests/compile/test_rounding.py tests/compile/test_narrow_sums.py
    tests/compile/test_fuse.py tests/kernels/test_blocked.py tests/kernels/test_gemm.py
    tests/kernels/test_reduce.py tests/kernels/test_norm.py -k 'not (gpu or lanes or [groups or -groups)'"
# Types are checked with what is installed. The parts that failed are kept in a file; all of them
# give way to the tests a little, and so find more moments at which a core is idle.
beside() {
    : >"$VENV/failed-beside"
    renice -n 5 -p "$BASHPID" >/dev/null 2>&1 || true
    part "make lint" make lint
    for width in 8 4; do
        if ((width < native)); then
            part "make test, vectors of $width floats" env CLNET_SIMD_WIDTH=$width \
                make test ARGS="-n 0 ${narrow//$'\n'/ } -m 'not perf and not gpu and not slow'"
        fi
    done
    printf '%s\n' "${failed[@]}" >"$VENV/failed-beside"
}
beside >"$VENV/beside.log" 2>&1 &
beside=$!

asked=$PWD/$VENV/asked-pytorch
part "make test" env CLNET_TESTS_ASKED_PYTORCH="$asked" make test
part "what ran beside it" wait "$beside"
cat "$VENV/beside.log"
while read -r name; do
    [[ -z $name ]] || failed+=("$name")
done <"$VENV/failed-beside"

part "PyTorch" wait "$pytorch"
cat "$VENV/torch.log"
if [[ -s $asked ]]; then
    # Behind its own programs those of the first environment: mpirun, pytest.
    part "make test TORCH=1, of what was skipped" env PATH="$PWD/$VENV/bin:$PATH" \
        make test VENV="$torch" TORCH=1 ARGS="@$asked"
fi

if ((${#failed[@]})); then
    printf 'failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
