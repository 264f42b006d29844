/*
 * boot/modules.h - when libdyad_member.so is in a name space of its own
 *
 * Object library dyad_boot_environ, only in libdyad_member.so.
 */
#ifndef DYAD_BOOT_MODULES_H
#define DYAD_BOOT_MODULES_H

/* Once libdyad_member.so is loaded, before a fork may come: what was loaded with it is not
 * destructed at the end of any process. Nothing happens if it is not apart. */
void boot_modules_settle(void);

#endif
