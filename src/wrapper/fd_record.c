/*
 * fd_record.c - what the engine is asked of an open description: is what is written by way of it recorded,
 * do other nodes write its file, too; and what is done then
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "wrapper/call.h"
#include "wrapper/engine_load.h"
#include "wrapper/fd_impl.h"
#include "wrapper/real.h"

/* A descriptor that another thread closes in the midst of a write: the range is recorded of
 * another file, or of none, as the write itself is anybody's guess. */
bool wrapper_fd_recorded(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops;
    engine_token token;

    if (!desc || atomic_load_explicit(&desc->unrecorded, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&desc->recorded, memory_order_relaxed))
        return true;
    /* Since another node has joined? */
    ops = wrapper_engine_loaded();
    token = atomic_load_explicit(&desc->token, memory_order_relaxed);
    if (!ops || !token || !ops->write_recorded(token))
        return false;
    atomic_store(&desc->recorded, true);
    return true;
}

/* Locks and unlocks of this process: what was written before one is not of the same time as what is
 * written after it, so it is not the same range. */
static _Atomic uint32_t locks;

#define HELD_TRIES 3

uint64_t wrapper_fd_record(int fd, uint64_t offset, uint64_t length)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;
    uint64_t number;

    if (!token || !ops)
        return 0;
    if (atomic_load(&desc->epoch) != atomic_load(&locks)) {
        atomic_store(&desc->epoch, atomic_load(&locks));
        atomic_store(&desc->range, 0);
    }
    number = ops->write_record(token, atomic_load(&desc->range), offset, length);
    /* Again if it is held anew by then; the second look at the record sees to the rest. */
    for (int i = 0; i < HELD_TRIES && number && ops->write_held(token); i++) {
        ops->write_record_end(token, number, offset + length, length ? offset : ~offset);
        ENGINE_CALL_VOID(ops->write_await(token, fd));
        number = ops->write_record(token, 0, offset, length);
    }
    if (number && length)
        atomic_store(&desc->range, number);
    else if (!number)
        atomic_store(&desc->unrecorded, true);
    return number;
}

void wrapper_fd_record_end(int fd, uint64_t number, uint64_t planned_end, uint64_t end)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;

    if (token && ops)
        ops->write_record_end(token, number, planned_end, end);
}

bool wrapper_fd_joint(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops;
    engine_token token;

    if (!desc || atomic_load_explicit(&desc->unrecorded, memory_order_relaxed))
        return false;
    ops = wrapper_engine_loaded();
    token = atomic_load_explicit(&desc->token, memory_order_relaxed);
    return ops && token && ops->write_joint(token);
}

bool wrapper_fd_shared(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = desc ? wrapper_engine_loaded() : NULL;
    engine_token token = desc ? atomic_load(&desc->token) : 0;

    return ops && token && ops->write_shared(token);
}

int wrapper_fd_lock(int fd, uint64_t offset, uint64_t length, enum engine_lock type,
                    unsigned flags)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;
    int rc;

    if (!token || !ops) {
        errno = EBADF;
        return -1;
    }
    atomic_fetch_add(&locks, 1);
    rc = ENGINE_CALL(ops->write_lock(token, fd, offset, length, type, flags));
    atomic_fetch_add(&locks, 1);
    return rc;
}

int wrapper_fd_show(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;

    return token && ops ? ENGINE_CALL(ops->write_show(token, fd)) : 0;
}

void wrapper_fd_unrecord(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_marked(fd) ? wrapper_fd_desc(fd) : NULL;
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;

    if (!token || !ops || atomic_exchange(&desc->unrecorded, true))
        return;
    ops->write_unrecord(token);
}

/* Set before the wrapper is on. */
static bool streams_recorded;

void wrapper_fd_record_streams(void)
{
    streams_recorded = true;
}

void wrapper_fd_unrecord_stream(int fd)
{
    if (!streams_recorded && fd >= 0)
        wrapper_fd_unrecord(fd);
}

static int has_append(int fd)
{
    int flags = REAL(fcntl)(fd, F_GETFL);

    return flags >= 0 && (flags & O_APPEND);
}

/* A thread that changes the flags meanwhile stores what they are after that. */
bool wrapper_fd_appends(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    int unknown = WRAPPER_FD_UNKNOWN, appends = desc ? atomic_load(&desc->appends) : 0;

    if (appends != WRAPPER_FD_UNKNOWN)
        return appends;
    appends = has_append(fd);
    atomic_compare_exchange_strong(&desc->appends, &unknown, appends);
    return appends;
}

void wrapper_fd_flags_changed(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_marked(fd) ? wrapper_fd_desc(fd) : NULL;
    int saved = errno;

    if (desc)
        atomic_store(&desc->appends, has_append(fd));
    errno = saved;
}

int wrapper_fd_append_begin(int fd, struct wrapper_call *call)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;
    int rc, error;

    if (!token || !ops) {
        errno = EBADF;
        return -1;
    }
    for (;;) {
        wrapper_call_begin(call);
        rc = ops->write_lock(token, fd, 0, 0, ENGINE_LOCK_WRITE,
                             ENGINE_LOCK_WAIT | ENGINE_LOCK_APPEND);
        if (rc == 0 || errno == ENOENT) /* without a name it is this node's file only */
            break;
        error = errno;
        wrapper_call_end(call);
        if (error != EINTR) { /* no write of a regular file ends so */
            errno = EIO;
            return -1;
        }
    }
    if (rc == 0 && ops->write_show(token, fd) < 0) {
        wrapper_fd_append_end(fd, call);
        errno = EIO;
        return -1;
    }
    return 0;
}

void wrapper_fd_append_end(int fd, struct wrapper_call *call)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = desc ? atomic_load(&desc->token) : 0;
    int saved = errno;

    if (token && ops)
        ops->write_lock(token, fd, 0, 0, ENGINE_LOCK_NONE, ENGINE_LOCK_APPEND);
    wrapper_call_end(call);
    errno = saved;
}
