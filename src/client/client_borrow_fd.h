/*
 * client/client_borrow_fd.h - calls that need a descriptor when the program has none left
 */
#ifndef DYAD_CLIENT_CLIENT_BORROW_FD_H
#define DYAD_CLIENT_CLIENT_BORROW_FD_H

/* Call fn(arg) with a copy of this process's descriptor table in which one number, not that
 * of stderr, is free; the program's own table does not change. The calling thread waits
 * meanwhile, and fn uses its thread-local variables, errno too. fn must not start
 * threads.
 * Returns fn's result, or -1 with errno: fn was not called. */
int client_borrow_fd(int (*fn)(void *arg), void *arg);

#endif
