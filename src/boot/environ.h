/*
 * boot/environ.h - a private environment for UCX and PMIx
 *
 * libucs installs signal handlers and memory hooks when it is loaded unless the
 * environment says otherwise, PMIx needs gds=hash, and both write to the environment,
 * which is not ours to change (docs/launchers.md). So libdyad_member.so defines getenv,
 * secure_getenv, setenv, putenv, unsetenv and clearenv over a private copy, and is opened
 * with RTLD_DEEPBIND or in a name space of its own (client/client_library.c): either
 * makes UCX and PMIx, loaded as its dependencies, find these first.
 *
 * What could go wrong: the program's copies have to be shared (before glibc 2.34,
 * sanitizers). Then their configuration is the program's: no override is made. environ.c
 * is an object library of its own (dyad_boot_environ), only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_ENVIRON_H
#define DYAD_BOOT_ENVIRON_H

/* Defined by the library that opens libdyad_member.so (libdyad.so.1): the environment
 * that the private copy begins with, NULL-terminated, constant, and valid as long as the
 * process lives; or NULL: an empty one. It is looked up by name when UCX's constructor
 * first asks for a variable, since no function can be called before. Any thread. */
#define BOOT_ENVIRON_FROM "libdyad.so.1"
__attribute__((visibility("default"))) char *const *dyad_environment(void);

#endif
