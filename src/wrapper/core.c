/*
 * core.c - start, the child of a fork, and the engine as wrapper functions ask for it
 *
 * The top of what the wrapper functions stand on: it calls what holds the state of a
 * process, and none of that calls it. What the start wrote is read only after an acquire
 * load of ON.
 */
#include "wrapper/core.h"

#include <errno.h>
#include <unistd.h>

#include "wrapper/environment.h"
#include "wrapper/fd.h"
#include "wrapper/limit.h"
#include "wrapper/map_pieces.h"
#include "wrapper/member_thread.h"
#include "wrapper/path_find.h"

static bool start(char **env)
{
    int seen = WRAPPER_NEW, saved = errno;
    bool on;

    if (!atomic_compare_exchange_strong(&wrapper_phase, &seen, WRAPPER_STARTING))
        return seen == WRAPPER_ON;
    wrapper_guard++;
    on = wrapper_path_setup(env) && wrapper_env_take(env);
    if (on) {
        wrapper_owner_begin();
        wrapper_engine_find();
    }
    wrapper_guard--;
    errno = saved;
    atomic_store_explicit(&wrapper_phase, on ? WRAPPER_ON : WRAPPER_OFF,
                          memory_order_release);
    return on;
}

bool wrapper_start_early(void)
{
#ifdef DYAD_SANITIZED
    /* The runtime makes its log's directory before it has its shadow memory. */
    return false;
#else
    /* environ is NULL until libc itself has been initialised. */
    return environ && start(environ);
#endif
}

__attribute__((constructor)) static void construct(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)argv;
    start(envp ? envp : environ);
}

void wrapper_fork_child(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    int saved = errno;

    wrapper_owner_set();
    wrapper_engine_fork_child();
    wrapper_limit_apply();
    wrapper_member_fork_child();
    wrapper_pieces_fork_child_begin();
    wrapper_fd_fork_child();
    wrapper_pieces_fork_child_end();
    if (ops)
        ENGINE_CALL_VOID(ops->fork_child());
    errno = saved;
}

bool wrapper_mine(void)
{
    if (wrapper_owner_is_unseen())
        wrapper_fork_child();
    return wrapper_owner_is_self();
}

bool wrapper_tracks(int fd)
{
    return wrapper_fd_marked(fd) && wrapper_active() && wrapper_mine();
}

int wrapper_show(int fd)
{
    return wrapper_fd_shared(fd) && wrapper_tracks(fd) ? wrapper_fd_show(fd) : 0;
}

const struct engine_ops *wrapper_engine(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();

    if (!ops && atomic_load(&wrapper_phase) != WRAPPER_ON)
        return NULL;
    if (wrapper_owner_is_unseen())
        wrapper_fork_child();
    if (!ops)
        ops = wrapper_engine_load();
    wrapper_member_hurry();
    return ops;
}
