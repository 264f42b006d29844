/*
 * boot/modules.h - destructors that must not run, also if libdyad_member.so is in a name
 * space of its own
 *
 * Object library dyad_boot_environ, only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_MODULES_H
#define DYAD_BOOT_MODULES_H

/* A fork() waits, for some seconds at most, from begin() to end(), which may be nested.
 * Called by any thread, of any name space; both keep errno. */
struct boot_loading {
    unsigned (*begin)(void); /* for end() */
    void (*end)(unsigned begun);
};

/* Called when libdyad_member.so is loaded, before a fork can come: no destructors of the
 * libraries that were loaded with it run at the end of any process. If it is not in a name
 * space of its own only those of UCX do not. `loading` is for libraries that are loaded
 * from now on, and must stay valid. */
void boot_modules_visit(const struct boot_loading *loading);

#endif
