/*
 * client/client_loading.h - nobody forks while the dynamic loader is at work for us
 *
 * Internal to libdyad.so.1. Thread-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_LOADING_H
#define DYAD_CLIENT_CLIENT_LOADING_H

#include "boot/modules.h"

extern const struct boot_loading client_loading;

/* Forks are heeded from now on; begin() does so, too. A handler that was registered with
 * pthread_atfork() before runs with loads locked out, one that comes later before that. */
void client_loading_watch(void);
/* In a child whose fork has called no handlers (_Fork, clone). May be called in any child.
 */
void client_loading_fork_child(void);

#endif
