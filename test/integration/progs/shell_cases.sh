# shellcheck shell=sh disable=SC2034,SC2094
# shell_cases.sh - the ways in which shells write a file; sourced by bash, dash and busybox sh
#
# Each function c_NAME FILE writes FILE, once: whoever reads it at any time has all of it. $A and $B are files of some
# 20 KB outside of the managed directory.

c_echo() { echo x >"$1"; }
c_loop() {
    i=0
    while [ $i -lt 300 ]; do
        echo "line $i of a loop that writes without a child"
        i=$((i + 1))
    done >"$1"
}
c_cat() { cat "$A" >"$1"; }
c_group() { { cat "$A"; cat "$B"; } >"$1"; }
c_group_slow() { { cat "$A"; sleep 0.01; cat "$B"; } >"$1"; }
c_group_killed() { { cat "$A"; sh -c 'kill -9 $$'; cat "$B"; } >"$1"; }
c_append_new() { cat "$A" >>"$1"; }
c_exec() {
    exec 3>"$1"
    echo x >&3
    cat "$A" >&3
    echo y >&3
    exec 3>&-
}
c_exec_append() {
    exec 4>>"$1"
    cat "$A" "$B" >&4
    cat "$A" >&4
    exec 4>&-
}
c_exec_moved() {
    exec 5>"$1" 6>&5 5>&-
    cat "$A" >&6
    sh -c 'cat "$0" >&6' "$B"
    exec 6>&-
}
c_exec_stdout() (exec >"$1"; cat "$A"; echo end)
c_heredoc() {
    cat >"$1" <<END
$(cat "$A")
the end
END
}
c_tee() { cat "$A" | tee "$1" >/dev/null; }
c_tee_append() { cat "$A" | tee -a "$1" >/dev/null; }
c_pipeline() { cat "$A" "$B" | sort -r | head -n 500 >"$1"; }
c_pipe_loop() { head -n 200 "$A" | while read -r line; do echo "<$line>"; done >"$1"; }
c_dd() { dd if="$A" of="$1" bs=1000 2>/dev/null; }
c_dd_stdin() { cat "$A" "$B" | dd of="$1" 2>/dev/null; }
c_dd_stdout() { dd if="$A" 2>/dev/null >"$1"; }
c_background() {
    cat "$A" >"$1" &
    wait $!
}
c_background_left() { { sleep 0.01; cat "$A"; cat "$B"; } >"$1" & }
c_background_two() { { cat "$A"; cat "$A" & wait $!; } >"$1"; }
c_subshell() { (cat "$A"; cat "$B") >"$1"; }
c_subshell_inside() { (cat "$A" >"$1"); }
c_subshell_nested() { ( ( (cat "$A") ; (cat "$B") ) >"$1" ); }
c_clobber() {
    set -C
    cat "$A" >|"$1"
    set +C
}
c_noclobber() {
    set -C
    cat "$A" >"$1"
    set +C
}
c_both() { { cat "$A"; echo err >&2; } >"$1" 2>&1; }
c_read_write() { cat "$A" 1<>"$1"; }
c_function() {
    inner() { cat "$A"; echo x; }
    inner >"$1"
}
c_substitution() { echo "$(cat "$A")" >"$1"; }
c_trap() { sh -c 'trap "cat \"\$0\" >\"\$1\"" EXIT; exit 0' "$A" "$1"; }
c_exec_last() { sh -c 'exec cat "$0" >"$1"' "$A" "$1"; }
c_shell_end() { sh -c 'exec 3>"$1"; cat "$0" >&3' "$A" "$1"; }
c_xargs() { echo "$A" "$B" | xargs -n 1 cat >"$1"; }
c_sed_w() { sed -n "w $1" "$A"; }
c_awk() { awk -v out="$1" '{ print $0, NR >out }' "$A"; }
c_sort_o() { sort -r -o "$1" "$A"; }
c_cp() { cp "$A" "$1"; }
c_mv() {
    cat "$A" >"$1.part"
    mv "$1.part" "$1"
}
c_empty() { : >"$1"; }

# Names of the functions above, and of those that only bash knows.
names() {
    sed -n 's/^c_\([a-z_]*\)() .*/\1/p' "$CASES"
    [ -z "${BASH_VERSION:-}" ] || sed -n 's/^ *c_\(ba_[a-z_]*\)() .*/\1/p' "${CASES%.sh}.bash"
}
