#!/usr/bin/env bash
# Runs a command with exactly one OpenCL implementation visible, whatever else is installed:
#
#   ci/opencl.sh pocl-pip     COMMAND...   PoCL from pip (pocl-binary-distribution)
#   ci/opencl.sh pocl-debian  COMMAND...   PoCL from Debian or Ubuntu
#   ci/opencl.sh intel        COMMAND...   Intel's CPU runtime from pip (intel-opencl-rt)
#   ci/opencl.sh oclgrind     COMMAND...   Oclgrind, the checking simulator; obeys its OCLGRIND_*
#   ci/opencl.sh rusticl      COMMAND...   Mesa's rusticl, which computes on the CPU by llvmpipe
#   ci/opencl.sh two-devices  COMMAND...   PoCL from pip as two devices, for what needs two
#
# ci/install-opencl.sh installs them. Intel's is looked for in $INTEL_OPENCL_PREFIX, else in the
# environment of the python3 on the PATH.
#
# How one is chosen: the OpenCL loader (libOpenCL.so) reads a folder of .icd files, each naming a
# library; OCL_ICD_VENDORS names another folder than /etc/OpenCL/vendors. The loader in pyopencl's
# wheel reads the wheel's own .libs folder as well, always, and so adds pip's PoCL to whatever was
# asked for. Both PoCLs have the same platform name, so a filter by name would not tell them apart.
# Loading another loader first (LD_PRELOAD) puts its functions before those of the wheel's loader.
set -euo pipefail

fail() {
    printf 'ci/opencl.sh: %s\n' "$1" >&2
    exit 2
}

usage="usage: ci/opencl.sh pocl-pip|pocl-debian|intel|oclgrind|rusticl|two-devices COMMAND..."
[[ $# -ge 2 ]] || fail "$usage"
implementation=$1
shift
icd=$(cd "$(dirname "$0")/icd" && pwd)

# What an outer call of this script, or the user, set for another implementation.
unset LD_PRELOAD OCL_ICD_FILENAMES POCL_DEVICES

# pyopencl's own cache of binaries would hide what the implementation's compiler does.
export PYOPENCL_NO_CACHE=1

system_library() { # path of a library that the dynamic linker knows, or nothing
    { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } |
        awk -v name="$1" '$1 == name && /x86-64|AArch64/ && !found { print $NF; found = 1 }'
}

need_pip_pocl() {
    python3 -c 'from importlib.util import find_spec as f; exit(not f("pocl_binary_distribution"))' ||
        fail "no PoCL in $(command -v python3); install it: pip install pocl-binary-distribution"
}

case $implementation in
pocl-pip)
    need_pip_pocl
    export OCL_ICD_VENDORS=$icd/none
    ;;
two-devices)
    need_pip_pocl
    export OCL_ICD_VENDORS=$icd/none
    # One device per word. Some builds of PoCL know this driver as "cpu"; 3.0 and 3.1 do not.
    export POCL_DEVICES="pthread pthread"
    ;;
pocl-debian)
    loader=$(system_library libOpenCL.so.1)
    [[ -n $(system_library libpocl.so.2) && -n $loader ]] ||
        fail "no system-wide PoCL; install it: ci/install-opencl.sh pocl-debian"
    export OCL_ICD_VENDORS=$icd/pocl-debian LD_PRELOAD=$loader
    ;;
intel)
    prefix=${INTEL_OPENCL_PREFIX:-$(python3 -c 'import sys; print(sys.prefix)')}
    [[ -e $prefix/lib/libintelocl.so ]] ||
        fail "no Intel runtime in $prefix;\
 install it: pip install intel-opencl-rt intel-cmplr-lib-rt"
    # The .icd file of the wheel names a path of the machine that built it, so ci/icd/intel names
    # the library alone; libintelocl.so and the loader beside it find their own needs (libsvml,
    # libimf from intel-cmplr-lib-rt, libtbb) through the search path.
    export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export OCL_ICD_VENDORS=$icd/intel LD_PRELOAD=$prefix/lib/libOpenCL.so.1
    ;;
oclgrind)
    command -v oclgrind >/dev/null ||
        fail "no oclgrind; install it: ci/install-opencl.sh oclgrind"
    # oclgrind preloads its own libOpenCL, which knows one platform: the simulator.
    set -- oclgrind "$@"
    ;;
rusticl)
    loader=$(system_library libOpenCL.so.1)
    [[ -n $(system_library libRusticlOpenCL.so.1) && -n $loader ]] ||
        fail "no rusticl; install it: ci/install-opencl.sh rusticl"
    # Mesa shows the devices that it is told to; without a GPU that is llvmpipe.
    export RUSTICL_ENABLE=${RUSTICL_ENABLE:-llvmpipe}
    export OCL_ICD_VENDORS=$icd/rusticl LD_PRELOAD=$loader
    ;;
*)
    fail "unknown implementation '$implementation'; $usage"
    ;;
esac
exec "$@"
