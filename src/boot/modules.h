/*
 * boot/modules.h - destructors that must not run; libdyad_member.so in a name space of its
 * own
 *
 * Object library dyad_boot_environ, only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_MODULES_H
#define DYAD_BOOT_MODULES_H

/* No process is forked between begin() and end(), which may be nested. Any thread of any
 * name space; keep errno. */
struct boot_loading {
    void (*begin)(void);
    void (*end)(void);
};

/* Once libdyad_member.so is loaded, before a fork may come: what was loaded with it is not
 * destructed at the end of any process. Only UCX is meant where it is not apart. `loading`
 * is for what is loaded from now on, and must stay valid. */
void boot_modules_settle(const struct boot_loading *loading);

#endif
