#!/bin/bash
# Programs that write their title over their environment share files as others do: as the first process of their rank
# and as a later one, before main has gone far and after, with what they start and what they become.
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun perl
JOB_ENV+=(DYAD_TIMEOUT=20)

cat >"$WORK/title.pl" <<'EOT'
my ($own, $other) = @ARGV;
$0 = "x" x 3000;
chdir $ENV{DIR} or die "$!";
open F, ">", $own or die "$own: $!"; print F "$own\n"; close F or die "$own: $!";
open F, "<", $other or die "$other: $!"; die "$other is not right" unless <F> eq "$other\n"; close F;
system("read -r line <$other && echo $own.child >$own.child") == 0 or die "child";
system("echo $own.system >$own.system") == 0 or die "system";
exec "sh", "-c", "echo $own.exec >$own.exec";
EOT
# get NAME...: each has its name in it.
cat >"$WORK/get" <<'EOT'
cd "$DIR"
for name; do
    [ "$(cat "$name")" = "$name" ] || { echo "$name is not right" >&2; exit 1; }
done
EOT

# Of members only b1 becomes something else: one without an environment (a2) would pass nothing on, as with env -i.
moved="a1 a1.system a3 a3.system a3.exec" still="a2 a4 a4.exec" n1="b1 b1.system b1.exec b2 b2.system b3 b3.system b3.exec"
# shellcheck disable=SC2086 disable=SC2016
local_job_ok 60 \
    1@n0 "$PROGS/retitle" ends "$(dmd_of n0)" a1 b1 -- \
    1@n0 "$PROGS/retitle" still-ends "$(dmd_of n0)" a2 b2 -- \
    1@n0 bash -c '"$0/retitle" moved "$1" a3 b3 && "$0/retitle" still "$1" a4 b3; status=$?; shift
        DIR=$DYAD_PATH bash "$@" && exit $status' "$PROGS" "$(dmd_of n0)" "$WORK/get" $n1 b1.child b2.child b3.child -- \
    1@n1 env "DIR=$(dmd_of n1)" perl "$WORK/title.pl" b1 a1 -- \
    1@n1 "$PROGS/retitle" ends "$(dmd_of n1)" b2 a2 -- \
    1@n1 bash -c 'DIR=$DYAD_PATH; export DIR; perl "$0" b3 a3; status=$?; bash "$@" && exit $status' \
        "$WORK/title.pl" "$WORK/get" $moved $still a1.child a2.child a3.child a4.child
! grep -q '(null)' "$ERR" "$LOG" || fail "a message names nothing: $(grep -h '(null)' "$ERR" "$LOG" | head -n 1)"
