/*
 * wrapper/engine_load.h - the engine's life in this process: it is found, loaded and set
 * up, and nobody forks meanwhile
 */
#ifndef DYAD_WRAPPER_ENGINE_LOAD_H
#define DYAD_WRAPPER_ENGINE_LOAD_H

#include <stdbool.h>

#include "client/client_ops.h"

/* Once, before the phase is ON: note where this library is, beside which the engine is. */
void wrapper_engine_find(void);

/* The table if the engine is loaded, else NULL. */
const struct engine_ops *wrapper_engine_loaded(void);
/* The same, loading it at the first call. Errno is kept. */
const struct engine_ops *wrapper_engine_load(void);
/* Before that, best effort: have it loaded and set up by a thread with a descriptor table
 * of its own. */
void wrapper_engine_preload(void);

/* Around the real fork: no fork while another thread is half way through loading the
 * engine. False: this thread is itself in the engine (a signal handler forks), and nothing
 * was locked. */
bool wrapper_fork_lock(void);
void wrapper_fork_unlock(void);
/* In the child of a fork. */
void wrapper_engine_fork_child(void);

#endif
