# shellcheck shell=bash
# What shell_cases.sh has, for bash alone.
c_ba_out() {
    tee >(sort -r >"$1") <"$A" >/dev/null
    wait $!
}
c_ba_in() { cat <(cat "$A") <(cat "$B") >"$1"; }
c_ba_here_string() { cat >"$1" <<<"$(<"$A")"; }
c_ba_both() { { cat "$A"; echo err >&2; } &>"$1"; }
c_ba_numbered() {
    local fd
    exec {fd}>"$1"
    cat "$A" >&"$fd"
    printf '%s\n' {1..500} >&"$fd"
    exec {fd}>&-
}
c_ba_coproc() {
    coproc cat >"$1"
    local pid=$COPROC_PID
    cat "$A" >&"${COPROC[1]}"
    eval "exec ${COPROC[1]}>&-"
    wait "$pid"
}
