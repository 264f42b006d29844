#!/bin/bash
# shell_producer.sh DIR - a rank that is a script: its children, at once and in turn, write and read
set -eu
dir=$1
echo "from the shell itself" >"$dir/builtin"
seq 1 1000 >"$dir/seq"
{ echo head; seq 5; echo tail; } >"$dir/group"
seq 1 500 | tee "$dir/tee" | sort -r >"$dir/sorted"
(echo sub; echo shell) >"$dir/subshell"
printf 'a\n' >"$dir/appended"
printf 'b\n' >>"$dir/appended"
cp "$dir/seq" "$dir/copied"
head -c 100000 /dev/zero | dd of="$dir/dd" bs=1000 2>/dev/null
mv "$dir/copied" "$dir/moved"
for i in 1 2 3 4 5 6 7 8; do
    (seq "$i" 200 >"$dir/parallel.$i") &
done
wait
# What the other rank makes of it.
read -r answer <"$dir/answer"
[ "$answer" = "8 files, 1000 lines" ]
echo "producer: $answer"
