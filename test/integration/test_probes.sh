#!/bin/bash
# Ordinary calls of tools in a managed directory, with nothing set: each ends as it does natively, though another rank is at
# work, so that nothing says that what they look for will not come. And what is input is waited for.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun sqlite3 git gcc g++ gfortran make cmake tar zip unzip rsync perl bzip2 ncgen ncks h5dump patch bc less busybox dash
[ -n "$PYTHON" ] || skip "needs python3"
VIM_PROGRAM=$(command -v vim.tiny || command -v vim || command -v vi) || skip "needs vim"
CALLS=$SOURCE_DIR/test/integration/progs/calls.sh
export OPENS=$PROGS/opens PYTHON VIM_PROGRAM

# Same length of the path: some of what programs write depends on it.
bash "$CALLS" "$WORK/nat.n0" "$WORK/results.nat"
! grep -l 'TIMED OUT' "$WORK/results.nat"/* || fail "a call does not end natively"

cat >"$WORK/busy" <<'EOT'
until [ -e "$WORK/over" ]; do sleep 0.1; done
EOT
JOB_ENV=("DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash "WORK=$WORK" "PYTHON=$PYTHON" "OPENS=$OPENS" "VIM_PROGRAM=$VIM_PROGRAM")
local_job_ok 200 1@n0 bash -c 'bash "$0" "$DYAD_PATH" "$1"; : >"$WORK/over"' "$CALLS" "$WORK/results.dmd" -- \
    1@n1 bash "$WORK/busy"
bad=0 calls=0
for result in "$WORK/results.nat"/*; do
    name=${result##*/} calls=$((calls + 1))
    diff <(sed "s,$WORK/nat\.n0,$WORK/dmd.n0,g" "$result") "$WORK/results.dmd/$name" >"$WORK/diff" 2>&1 && continue
    say "$name is not as it is natively:"
    head -n 12 "$WORK/diff"
    bad=$((bad + 1))
done
[ $bad -eq 0 ] || fail "$bad of $calls calls are not as natively"
say "$calls calls"

# What is input is waited for, although it looks like a probe: a command line names it; a rank has it open for writing; it is
# of a series; there is no database of that name. What nothing speaks for is not.
cat >"$WORK/consumer" <<'EOT'
cd "$DYAD_PATH" || exit 1
! read -r x 2>/dev/null <opt/none.5 || exit 1
(read -r x <opt/open && echo "$x" >"$WORK/got.open") &
("$VIM_PROGRAM" -es -u NONE -c "w! $WORK/got.edited" -c q edited) &
(printf 'program us\n use mo\n print *, a\nend program\n' >us.f90; gfortran -c us.f90 && echo module >"$WORK/got.module") &
(read -r x <opt/series.7 && echo "$x" >"$WORK/got.series") &
(read -r x <run-journal && echo "$x" >"$WORK/got.journal") &
cat sub/.ncrc >"$WORK/got.named" || exit 1
wait
EOT
cat >"$WORK/producer" <<'EOT'
cd "$DYAD_PATH" && mkdir opt sub || exit 1
exec 3>opt/open 4>edited && echo open >&3 && echo edited >&4 && echo 1 >opt/series.1 || exit 1
: >"$WORK/written"
until [ "$("$DUMP" --waiting | grep -cE 'opt/open|opt/series.7|run-journal|sub/.ncrc|edited|mo.mod')" -eq 6 ]; do sleep 0.1; done
exec 3>&- 4>&-
printf 'module mo\n integer :: a = 1\nend module\n' >mo.f90; gfortran -c mo.f90 || exit 1
echo series >opt/series.7 && echo journal >run-journal && echo named >sub/.ncrc
EOT
JOB_ENV=("DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash "WORK=$WORK" "DUMP=$BIN/dyad-dht-dump" "VIM_PROGRAM=$VIM_PROGRAM" 'DYAD_PROBES=opt/*:*.opt')
local_job_ok 60 1@n2 bash "$WORK/producer" -- 1@n3 bash -c 'until [ -e "$WORK/written" ]; do sleep 0.1; done; exec bash "$WORK/consumer"'
for name in open edited module series journal named; do
    [ "$(cat "$WORK/got.$name")" = $name ] || fail "$name: $(cat "$WORK/got.$name")"
done
