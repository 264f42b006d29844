#!/bin/sh
# test_self.sh PROGRAM - what replay.c says of a corpus: it is right, empty, refused altogether, or breaks a promise
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
refuses() {
    if "$@" "$dir" >/dev/null 2>&1; then
        echo "not refused: $(ls "$dir")"
        exit 1
    fi
}

refuses "$1"
echo x >"$dir/refused"
refuses "$1"
"$1" --seeds "$dir"
"$1" "$dir"
echo b >"$dir/broken"
refuses "$1"
