#!/bin/bash
# shell_consumer.sh DIR - reads what shell_producer.sh writes, through several children
set -eu
dir=$1
[ "$(cat "$dir/builtin")" = "from the shell itself" ]
children=()
for i in 1 2 3 4 5 6 7 8; do
    (set -o pipefail; seq "$i" 200 | cmp - "$dir/parallel.$i") &
    children+=($!)
done
for child in "${children[@]}"; do
    wait "$child"
done
seq 1 500 | cmp - "$dir/tee"
seq 1 500 | sort -r | cmp - "$dir/sorted"
[ "$(tr '\n' ' ' <"$dir/group")" = "head 1 2 3 4 5 tail " ]
[ "$(cat "$dir/subshell")" = $'sub\nshell' ]
[ "$(tr -d '\0' <"$dir/dd" | wc -c)" = 0 ]
[ "$(stat -c %s "$dir/dd")" = 100000 ]
lines=$(wc -l <"$dir/moved")
[ "$(cat "$dir/appended")" = $'a\nb' ]
set -- "$dir"/parallel.*
count=$#
echo "$count files, $lines lines" >"$dir/answer"
