#!/bin/bash
# Empty files, new subdirectories, and names with whatever a name may hold.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
X=$PROGS/xfer

"$PYTHON" - "$WORK/names" <<'PY'
import os, sys
long_ascii = b"n" * 255
long_utf8 = "\u00e9".encode() * 127 + b"x"
names = [
    b"plain", b"with space", b" leading", b"trailing ", b"new\nline", b"tab\there", b"back\\slash",
    b"quote'\"`", b"star*?[a]", b"-dash", b"%s%n", b"\xe2\x82\xac uro", "\u65e5\u672c\u8a9e".encode(),
    b"latin1 \xe9", b"\x01control\x7f", b".hidden", b"..dots", b"...", b"a", b"dyad", b".dyadish",
    long_ascii, long_utf8,
    b"sub/file", b"sub/deeper/and/deeper/still/file", b"sub dir/new\nline/f", b"sub/plain",
    b"/".join([b"d" * 250] * 8) + b"/" + b"e" * 255,
    b"/".join([b"x"] * 200) + b"/leaf",
]
with open(sys.argv[1], "wb") as out:
    out.write(b"".join(name + b"\0" for name in names))
PY
count=$(tr -cd '\0' <"$WORK/names" | wc -c)

for size in 0 1 4097; do
    clean_ssd
    rm -f "$WORK"/ready.*
    job_ok 60 1@n0 "$X" write -d "$SSD" -N "$WORK/names" -s $size -S "$WORK/w" -a "$WORK/ready.1" -a "$WORK/ready.2" -- \
        1@n1 "$X" read -d "$SSD" -N "$WORK/names" -s $size -S "$WORK/r1" -r "$WORK/ready.%r" -- \
        1@n2 "$X" read -d "$SSD" -N "$WORK/names" -s $size -S "$WORK/r2" -r "$WORK/ready.%r" -t 8 -m fopen
    same_sums "$count" n0 n1 n2
    for got in r1 r2; do
        cmp <(sort "$WORK/w") <(sort "$WORK/$got") || fail "what was written and $got differ"
    done
done

# Other ways to say the same path: a trailing part that climbs back, doubled slashes, a relative one.
clean_ssd
job_ok 60 1@n0 sh -c 'mkdir -p "$0/a/b" && echo text >"$0/a/b/../file" && cd "$0" && echo other >.//a//./b/other' "$SSD" -- \
    1@n1 sh -c '[ "$(cat "$0/a/file")" = text ] && cd "$0" && [ "$(cat ./a/b/other)" = other ]' "$SSD"
