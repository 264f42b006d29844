/*
 * boot/abort.h - UCX ends the process, and the process does not end
 *
 * UCX checks itself, and calls abort() when a check fails (1.13.1 does, once in a hundred
 * connections that fail while they are being made). That would be the end of the program,
 * which has done nothing wrong. So libdyad_member.so defines abort(), which UCX and PMIx
 * find before libc's, as they find getenv (boot/environ.h): a thread that makes its calls
 * under boot_abort_catch() comes back from there instead. On any other thread of theirs
 * (UCX's async thread, PMIx's) abort() is what it always is. An abort() of the program's is
 * its own: it is looked up in the global scope, where this library, opened without
 * RTLD_GLOBAL, is not; also in a forked child.
 *
 * Object library dyad_boot_environ, only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_ABORT_H
#define DYAD_BOOT_ABORT_H

/* Call fn(arg). 0, or -1: it did not return, a library beneath it has called abort(). Then
 * whatever that library has may be half changed and locked for ever: nothing of it must be
 * called or freed again, nor anything that it was about to call back into; and from then
 * on a thread of its own that calls abort(), too (its descriptors were closed, say), sleeps
 * for ever in place of ending the process. fn must hold no lock when it calls such a
 * library. Not for use inside itself. Any thread. */
int boot_abort_catch(void (*fn)(void *arg), void *arg);

#endif
