#!/usr/bin/env bash
# Installs OpenCL implementations for ci/opencl.sh:
#
#   ci/install-opencl.sh pocl-debian   PoCL, system-wide (needs root)
#   ci/install-opencl.sh oclgrind      Oclgrind, system-wide (needs root)
#   ci/install-opencl.sh pocl-pip      PoCL into the environment of the python3 on the PATH
#   ci/install-opencl.sh intel         Intel's CPU runtime, likewise (800 MB)
#   ci/install-opencl.sh rusticl       Mesa's rusticl, system-wide (needs root)
#   ci/install-opencl.sh all           all of these
set -euo pipefail

apt_install() {
    # Without its .icd file in /etc/OpenCL/vendors, PoCL is seen by those who ask for it alone
    # (ci/opencl.sh pocl-debian): every other OpenCL program on the machine runs as before.
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o Dpkg::Options::="--path-exclude=/etc/OpenCL/vendors/*" "$@"
}

pip_install() {
    python3 -m pip install --quiet "$@"
}

[[ $# -ge 1 ]] || set -- --help
for implementation in "$@"; do
    case $implementation in
    pocl-debian) apt_install pocl-opencl-icd ocl-icd-libopencl1 clinfo ;;
    oclgrind) apt_install oclgrind ;;
    rusticl) apt_install mesa-opencl-icd ocl-icd-libopencl1 ;;
    pocl-pip) pip_install pocl-binary-distribution ;;
    # intel-opencl-rt needs libimf and libsvml, but does not name the package that holds them.
    intel) pip_install intel-opencl-rt intel-cmplr-lib-rt ;;
    all) "$0" pocl-debian oclgrind pocl-pip intel rusticl ;;
    *)
        echo "usage: ci/install-opencl.sh pocl-debian|oclgrind|pocl-pip|intel|rusticl|all ..." >&2
        exit 2
        ;;
    esac
done
