#!/bin/sh
# install-deps.sh - what the build, the tests and the quickstart need from the distribution
#
#   install-deps.sh [--list] [build] [test]      both groups unless named
#
# Knows Debian 12 (and what derives from it) and Fedora. Silent when nothing is missing;
# installs with apt-get or dnf, as root or through sudo; otherwise says what to run.
set -eu

usage() {
    sed -n '2,7s/^# \{0,1\}//p' "$0"
}

list= groups=
for arg in "$@"; do
    case $arg in
    --list) list=1 ;;
    build | test) groups="$groups $arg" ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install-deps.sh: unknown argument '$arg'" >&2; usage >&2; exit 2 ;;
    esac
done
: "${groups:=build test}"

# build: the libraries, tools and test programs. The quickstart needs python3 and mpirun beside them.
# test: the launchers, the real programs that tests run unchanged, and the checkers.
debian_build="gcc g++ libc6-dev cmake ninja-build pkg-config python3 openmpi-bin libopenmpi-dev
    libucx-dev libpmix-dev libssl-dev libjansson-dev libxxhash-dev uthash-dev"
debian_test="libcmocka-dev valgrind libc6-dbg clang-format-14 clang-14 libclang-rt-14-dev mandoc
    iproute2 util-linux procps hostname tar diffutils
    slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge gfortran hdf5-tools netcdf-bin
    libhdf5-openmpi-dev libpnetcdf-dev
    dash busybox make perl git sqlite3 zip unzip bzip2 rsync nco vim-tiny patch bc less
    snakemake python3-distributed python3-pip python3-setuptools python3-wheel tcpdump"
fedora_build="gcc gcc-c++ glibc-devel cmake ninja-build pkgconf-pkg-config python3 openmpi
    openmpi-devel ucx-devel pmix-devel openssl-devel jansson-devel xxhash-devel uthash-devel"
fedora_test="libcmocka-devel valgrind clang-tools-extra clang compiler-rt mandoc libasan libubsan libtsan
    iproute util-linux procps-ng hostname tar diffutils
    slurm slurm-slurmctld slurm-slurmd munge gcc-gfortran hdf5 netcdf
    hdf5-openmpi-devel pnetcdf-openmpi-devel
    dash busybox make perl git sqlite zip unzip bzip2 rsync nco vim-minimal patch bc less tcpdump
    python3-pip python3-setuptools python3-wheel"

if command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
    family=debian
elif command -v dnf >/dev/null 2>&1 && command -v rpm >/dev/null 2>&1; then
    family=fedora
else
    echo "install-deps.sh: this system has neither apt-get nor dnf. Please install what these" \
        "Debian packages hold:" $debian_build $debian_test >&2
    exit 1
fi

wanted=
for group in $groups; do
    eval "wanted=\"\$wanted \$${family}_$group\""
done
if [ -n "$list" ]; then
    printf '%s\n' $wanted
    exit 0
fi

installed() {
    case $family in
    debian) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
    fedora) rpm -q --quiet --whatprovides "$1" ;;
    esac
}

missing=
for package in $wanted; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

case $family in
debian) update='apt-get -q update' install="apt-get -q -y --no-install-recommends install$missing" ;;
fedora) update=: install="dnf -y --setopt=install_weak_deps=False install$missing" ;;
esac

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "install-deps.sh: packages are missing and this user cannot install them." \
            "Please run as root:" >&2
        echo "    $update && $install" >&2
        exit 1
    fi
    as_root='sudo env DEBIAN_FRONTEND=noninteractive'
fi
export DEBIAN_FRONTEND=noninteractive
echo "install-deps.sh: installing$missing"
$as_root $update
$as_root $install
