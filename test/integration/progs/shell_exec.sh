#!/bin/bash
# shell_exec.sh DIR CMD... - writes a file, reads one, then becomes another program
set -eu
dir=$1
shift
echo "before exec" >"$dir/before.$PMIX_RANK"
read -r line <"$dir/before.$((1 - PMIX_RANK))"
[ "$line" = "before exec" ]
exec "$@"
