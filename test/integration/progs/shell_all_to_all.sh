#!/bin/bash
# shell_all_to_all.sh DIR RANKS - every rank writes a file and reads everybody's, twice: each wait depends on ranks that wait
# themselves, so a barrier that took "all wait just now" for "nobody is left" would be found out
for round in 1 2; do
    echo "$round from $PMIX_RANK" >"$1/round$round.$PMIX_RANK" || exit 1
    for ((i = 0; i < $2; i++)); do
        read -r line <"$1/round$round.$i" && [ "$line" = "$round from $i" ] || {
            echo "rank $PMIX_RANK: file of $i: '$line'" >&2
            exit 1
        }
    done
done
echo "all read"
