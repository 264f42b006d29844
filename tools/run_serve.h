/*
 * run_serve.h - a member that runs no program (engine/membership/servers.c)
 */
#ifndef DYAD_TOOLS_RUN_SERVE_H
#define DYAD_TOOLS_RUN_SERVE_H

#include <stdbool.h>
#include <sys/types.h>

/* To be called first: a server is a launch of its own, wherever it was started. Executes
 * this program anew if the library was preloaded into it; or `again`, so that /proc shows
 * the environment that it has made itself (dump_session.c). */
void run_serve_alone(char *const argv[], bool again);

/* Join the session in `session_dir` by the library that lies beside `wrapper`, say on
 * stdout that it has, and serve this node until SIGTERM, SIGINT or SIGHUP comes, the
 * process `while_pid` (0: none) has ended, or the directory is not there any more. Returns
 * an exit status: 0; 1: the session was lost; RUN_EXIT_FAILURE: it could not be joined, or
 * there is no such process. Messages on stderr. Blocks the signals. */
int run_serve(const char *wrapper, const char *session_dir, pid_t while_pid);

#endif
