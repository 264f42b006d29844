# shellcheck shell=sh
# shell_rank.sh produce|consume NAME RUNS WORK - a rank that is a script, run by bash, dash or busybox sh
#
# Runs of all cases of shell_cases.sh, RUNS times with the consumer ahead, RUNS times after the producer. Then one file
# rewritten, one appended to by both, RUNS times each. The runs' order is kept by FIFOs outside of the managed directory.
role=$1 name=$2 runs=$3 work=$4
bad=0
. "$CASES"
# shellcheck disable=SC1090
[ -z "${BASH_VERSION:-}" ] || . "${CASES%.sh}.bash"
all=$(names)
A=$work/A B=$work/B
exec 8<>"$work/to_producer.$name" 9<>"$work/to_consumer.$name"

wrong() {
    echo "$name: $*"
    bad=1
}

# check CASE FILE
check() {
    cmp "$work/expected/$1" "$2" || echo "$2" >>"$work/wrong.$name"
}

cd "$DYAD_PATH" || exit 1
run=0
while [ $run -lt $((2 * runs)) ]; do
    if [ $role = produce ]; then
        [ $((run % 2)) -eq 1 ] || read -r _ <&8
        for case in $all; do
            c_$case "$PWD/$name.$case.$run" 8<&- 9<&-
        done
        wait
        [ $((run % 2)) -eq 0 ] || echo >&9
    else
        [ $((run % 2)) -eq 0 ] || read -r _ <&9
        for case in $all; do
            if [ $((run % 2)) -eq 0 ]; then
                check $case "$name.$case.$run" &
            else
                check $case "$name.$case.$run"
            fi
        done
        [ $((run % 2)) -eq 1 ] || echo >&8
        wait
    fi
    run=$((run + 1))
done

# A rewrite is seen by whoever opens after it: after a file that was published after it.
run=1
while [ $run -le "$runs" ]; do
    if [ $role = produce ]; then
        { echo "version $run"; cat "$A"; } >"$name.rewritten"
        echo "producer $run" >>"$name.log"
        : >"$name.go.$run"
        read -r line <"$name.back.$run" || wrong "no $name.back.$run"
        [ "$line" = "back $run" ] || wrong "$name.back.$run: '$line'"
    else
        : <"$name.go.$run" || wrong "no $name.go.$run"
        read -r line <"$name.rewritten"
        [ "$line" = "version $run" ] || wrong "rewritten: '$line', not version $run"
        tail -n +2 "$name.rewritten" | cmp - "$A" || wrong "rewritten: not whole"
        tail -n 1 "$name.log" | grep -qx "producer $run" || wrong "log: no line of producer $run"
        echo "consumer $run" >>"$name.log"
        echo "back $run" >"$name.back.$run"
    fi
    run=$((run + 1))
done
if [ $role = produce ]; then
    [ "$(wc -l <"$name.log")" -eq $((2 * runs)) ] || wrong "log: $(wc -l <"$name.log") lines of $((2 * runs))"
else
    [ ! -s "$work/wrong.$name" ] || wrong "not as written: $(wc -l <"$work/wrong.$name") files"
fi
exit $bad
