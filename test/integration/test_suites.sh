#!/bin/bash
# Real programs, twice: in a plain directory, and preloaded below the managed one with their build trees, data and
# temporary files there. What they print and leave must be the same, and readable on another node.
# With --soak: larger data, and all of this project built by cmake and ninja.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun sqlite3 git gcc make tar zip unzip rsync perl bzip2 h5repack h5import nccopy ncgen cmake ninja
[ -n "$PYTHON" ] || skip "needs python3"
suites=(sqlite git make archives rsync edit sort python hdf5)
SCALE=1 CMAKE_TARGETS=
if [ $LEVEL = soak ]; then
    suites+=(cmake) SCALE=10
fi
export SOURCE=$SOURCE_DIR SCALE CMAKE_TARGETS PYTHON
RUN=$SOURCE_DIR/test/integration/progs/suites.sh
# Same length of the path: some of what programs write depends on it.
mkdir -p "$WORK/nat.n0"
bash "$RUN" "$WORK/nat.n0" "$WORK/results.nat" "${suites[@]}"
for suite in "${suites[@]}"; do
    [ "$(tail -n 1 "$WORK/results.nat/$suite")" = "status 0" ] || fail "$suite, natively: $(tail -n 5 "$WORK/results.nat/$suite")"
done

# On the other node: what the first has left, file by file.
cat >"$WORK/read" <<'EOT'
until [ -e "$WORK/over" ]; do sleep 0.1; done
cd "$WORK/nat.n0"
find edit rsync python archives sort -type f ! -name '*.tar*' ! -name '*.zip' ! -name '*.db' ! -path '*/__pycache__/*' |
    sed -e '/archives\/out\./d' -e '/python\/shelf/d' >"$WORK/files"
xargs -d '\n' -n 50 sh -c 'for f; do cmp "$f" "$DYAD_PATH/$f" || echo "$f" >>"$WORK/unlike"; done' _ <"$WORK/files"
EOT
JOB_ENV+=(DYAD_WAIT=none DYAD_LOG=warn "WORK=$WORK" "SOURCE=$SOURCE" "SCALE=$SCALE" "PYTHON=$PYTHON" "CMAKE_TARGETS=$CMAKE_TARGETS")
seconds=600 # against what hangs
[ $LEVEL != soak ] || seconds=900
local_job_ok $seconds 1@n0 bash -c 'bash "$0" "$DYAD_PATH" "$@"; : >"$WORK/over"' "$RUN" "$WORK/results.dmd" "${suites[@]}" -- \
    1@n1 bash "$WORK/read"
bad=0
for suite in "${suites[@]}" left; do
    if ! diff "$WORK/results.nat/$suite" <(sed "s,$WORK/dmd\.n0,$WORK/nat.n0,g" "$WORK/results.dmd/$suite") >"$WORK/diff"; then
        say "$suite is not as it is natively:"
        head -n 20 "$WORK/diff"
        bad=1
    fi
done
[ $bad -eq 0 ] || fail "real programs see a difference"
[ ! -s "$WORK/unlike" ] || fail "not the same on the other node: $(wc -l <"$WORK/unlike") files, $(head -n 5 "$WORK/unlike")"
say "${#suites[@]} suites, $(wc -l <"$WORK/files") files read on the other node"

# Programs that probe and a consumer that waits, on both nodes, with patterns for what is waited for.
rm -rf "$(dmd_of n0)" "$(dmd_of n1)"
JOB_ENV=("${JOB_ENV[@]/DYAD_WAIT=none/DYAD_WAIT=results/*:*.answer}")
cat >"$WORK/work" <<'EOT'
cd "$DYAD_PATH" && mkdir -p results
case $DYAD_NODE in
n0) mine=make theirs=edit other=n1 ;;
n1) mine=edit theirs=make other=n0 ;;
esac
cat results/$theirs.of.$other >"$WORK/got.$DYAD_NODE" &
bash "$RUN" "$DYAD_PATH" "$WORK/results.$DYAD_NODE" $mine
: >"results/in.$DYAD_NODE" # what is not waited for fails at once
! cat "$mine/no such file" 2>/dev/null || exit 1
cp "$WORK/results.$DYAD_NODE/$mine" "results/$mine.of.$DYAD_NODE"
wait $! && echo done >$DYAD_NODE.answer && [ "$(cat $other.answer)" = done ]
EOT
JOB_ENV+=("RUN=$RUN")
local_job_ok 60 1@n0 bash "$WORK/work" -- 1@n1 bash "$WORK/work"
cmp "$WORK/got.n0" "$WORK/results.n1/edit" && cmp "$WORK/got.n1" "$WORK/results.n0/make" || fail "the waiting readers got something else"
for pair in make.n0 edit.n1; do
    diff "$WORK/results.nat/${pair%.*}" <(sed "s,$WORK/dmd\.n[01],$WORK/nat.n0,g" "$WORK/results.${pair#*.}/${pair%.*}") ||
        fail "${pair%.*} is not as it is natively with patterns in DYAD_WAIT"
done
say "probing programs and waiting readers in one job"
