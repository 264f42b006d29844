/*
 * boot/abort.h - surviving an abort() of UCX
 *
 * UCX checks itself, and calls abort() when a check fails (1.13.1 does, once in a hundred
 * connections that fail while they are being made). That would be the end of the program,
 * which has done nothing wrong. So libdyad_member.so defines abort(), which UCX and PMIx
 * find before libc's, as they find getenv (boot/environ.h): a thread that makes its calls
 * under boot_abort_catch() returns from that instead. On any other thread of theirs
 * (UCX's async thread, PMIx's) abort() ends the process as usual. An abort() of the
 * program is not affected: it is looked up in the global scope, where this library,
 * opened without RTLD_GLOBAL, is not; also in a forked child.
 *
 * Object library dyad_boot_environ, only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_ABORT_H
#define DYAD_BOOT_ABORT_H

/* Call fn(arg). 0, or -1: fn did not return, since a library that it called has called
 * abort(). Then the state of that library may be half changed and locked for ever: none
 * of it must be called or freed again, nor the objects that it was about to call back;
 * and from then on a thread of that library that calls abort() (since its descriptors
 * were closed, say) sleeps for ever in place of ending the process. fn must hold no lock
 * when it calls such a library. Does not nest. Any thread. */
int boot_abort_catch(void (*fn)(void *arg), void *arg);

#endif
