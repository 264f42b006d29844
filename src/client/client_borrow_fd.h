/*
 * client/client_borrow_fd.h - a call that needs a descriptor when the program has none left
 */
#ifndef DYAD_CLIENT_CLIENT_BORROW_FD_H
#define DYAD_CLIENT_CLIENT_BORROW_FD_H

/* Call fn(arg) with a copy of this process's descriptor table in which one number, not that
 * of stderr, is free; the program's own table stays as it is. The calling thread stands
 * still meanwhile, and its thread-local variables are fn's, errno too. fn must not start
 * threads. Returns what fn did, or -1 with errno: it was not called. */
int client_borrow_fd(int (*fn)(void *arg), void *arg);

#endif
