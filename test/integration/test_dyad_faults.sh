#!/bin/bash
# What DYAD gets wrong, and the traps for any library of this kind: each a case that passes, named in the output.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun perl dash flock
[ -n "$PYTHON" ] || skip "needs python3"
mkdir "$WORK/done"
# Small requests, one at a time: a fetch takes long enough to be killed in.
JOB_ENV+=("DONE=$WORK/done" DYAD_TIMEOUT=20 DYAD_CHUNK_SIZE=65536 DYAD_CHUNKS=1)
status=0
local_job 60 1@n0 sh -c 'cd "$DYAD_PATH" && exec "$0" "$1" produce' "$PYTHON" "$SOURCE_DIR/test/integration/progs/faults.py" -- \
    1@n1 sh -c 'cd "$DYAD_PATH" && exec "$0" "$1" consume' "$PYTHON" "$SOURCE_DIR/test/integration/progs/faults.py" || status=$?
cat "$OUT"
[ $status -eq 0 ] || fail "job $JOBS ended with status $status"
! grep -q FAILED "$OUT" || fail "a fault"
! grep -q 'could not be marked' "$LOG" || fail "an open that writes nothing was marked"
grep -q 'killed in the fetch: 1' "$OUT" || fail "the reader had the whole file before it could be killed"

# trap 4: a constructor that runs before ours opens a file; trap 12 is documented.
cat >"$WORK/ctor.c" <<'EOT'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void early(void)
{
    FILE *f = fopen("early", "w");
    int fd = open("early.fd", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!f || fputs("early\n", f) < 0 || fclose(f) != 0 || write(fd, "early\n", 6) != 6 || close(fd) != 0)
        abort();
}
EOT
gcc -shared -fPIC -o "$WORK/ctor.so" "$WORK/ctor.c"
local_job_ok 30 1@n0 sh -c 'cd "$DYAD_PATH" && LD_PRELOAD=$LD_PRELOAD:$0 exec sh -c :' "$WORK/ctor.so" -- \
    1@n1 sh -c 'cd "$DYAD_PATH" && [ "$(cat early early.fd)" = "early
early" ]'
say "trap_4_before_our_constructor: ok"
grep -q 'RTLD_DEEPBIND' "$SOURCE_DIR/docs/semantics.md" || fail "trap 12: docs/semantics.md does not say what is not seen"
say "trap_12_bypassed: documented"
