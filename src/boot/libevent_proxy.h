/*
 * boot/libevent_proxy.h - set when the program uses the PMIx session that we began
 */
#ifndef DYAD_BOOT_LIBEVENT_PROXY_H
#define DYAD_BOOT_LIBEVENT_PROXY_H

#include <stdbool.h>

/* Defined in pmix.c, set by libevent_proxy.c, never cleared: our session must not end
 * before the program's use of it. Read and written with __atomic builtins, relaxed: nothing
 * else is published by it. */
extern bool boot_pmix_shared;

#endif
