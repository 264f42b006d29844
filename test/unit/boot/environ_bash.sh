#!/bin/sh
# bash, with its own getenv and setenv, opens UCX and PMIx on a thread: nothing changes for it or its children.
# environ_bash.sh PRELOAD PLUGIN
set -eu
out=$(env TEST_PLUGIN="$2" KEEP=me LD_PRELOAD="$1" bash -c 'export NEW=1; unset KEEP; exit 0' 2>&1) || {
    echo "$out"
    exit 1
}
case $out in
*"preload: good"*) ;;
*) echo "no word from the preloaded library: $out"; exit 1 ;;
esac
