/*
 * fd.c - descriptor table
 *
 * table[fd] holds 1 + the index of a description, 0 for none. `refs` of a description
 * counts table entries and holders; the one who gives up the last reference talks to the
 * engine about the token, around the real close, and then frees the record.
 *
 * Threads and signal handlers use the table without a lock, so an entry may change under
 * each of them: desc_drop(), wrapper_fd_hold() and wrapper_fd_close() say why each end of
 * a description is seen once. And descriptors can vanish without us: is_same_file().
 */
#include "wrapper/fd_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/log.h"
#include "wrapper/unshare_thread.h"
#include "wrapper/call.h"
#include "wrapper/engine_load.h"
#include "wrapper/gate.h"
#include "wrapper/real.h"

/* `refs` 0 is free. SETTLING: the last reference is being given up (desc_drop()). */
#define SETTLING (-1)

static _Atomic uint32_t desc_hint;
static _Atomic int fd_high = -1; /* no tracked descriptor is above */

static struct wrapper_desc *desc_get_free(void)
{
    uint32_t from = atomic_load_explicit(&desc_hint, memory_order_relaxed);

    for (uint32_t i = 0; i < WRAPPER_FD_DESCS; i++) {
        struct wrapper_desc *desc = &wrapper_fd_descs[(from + i) % WRAPPER_FD_DESCS];
        int free_refs = 0;
        if (atomic_load_explicit(&desc->refs, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&desc->refs, &free_refs, 1)) {
            atomic_store_explicit(&desc_hint, (from + i + 1) % WRAPPER_FD_DESCS,
                                  memory_order_relaxed);
            return desc;
        }
    }
    return NULL;
}

/* Descriptors can vanish without us (a raw syscall, code inside libc): the entry is stale
 * then, and the number may come back as another file. So before fd is shown to the
 * engine, its device and inode are compared; a stale entry is settled with fd -1. */
static bool is_same_file(const struct wrapper_desc *desc, int fd)
{
    struct stat st;

    return fd >= 0 && REAL(fstat)(fd, &st) == 0 && st.st_dev == desc->dev &&
           st.st_ino == desc->ino;
}

/* Give up one reference, around closer(fd). The one who swaps 1 for SETTLING gives up the
 * last: it alone talks to the engine about the token, then frees the record. */
static int desc_drop(struct wrapper_desc *desc, int fd, wrapper_closer *closer, void *arg)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    int refs = atomic_load(&desc->refs), saved = errno, rc, error = 0, cancel;
    struct engine_closing closing;
    engine_token token;

    while (
        !atomic_compare_exchange_weak(&desc->refs, &refs, refs == 1 ? SETTLING : refs - 1))
        ;
    if (refs != 1)
        return closer ? closer(fd, arg) : 0;
    /* The thread is not cancelled in the close and what belongs to it. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    token = atomic_load(&desc->token);
    if (token && ops)
        ENGINE_CALL_VOID(
            ops->write_closing(token, is_same_file(desc, fd) ? fd : -1, &closing));
    errno = saved;
    rc = closer ? closer(fd, arg) : 0;
    if (rc < 0)
        error = errno;
    if (token && ops) {
        saved = errno;
        wrapper_apart_wait();
        if (ENGINE_CALL(ops->write_closed(&closing, error, atomic_load(&desc->mapped))) <
                0 &&
            rc >= 0)
            rc = -1;
        else
            errno = saved;
    }
    atomic_store(&desc->refs, 0);
    pthread_setcancelstate(cancel, NULL);
    return rc;
}

/* Entry of fd becomes desc, whose reference it takes over. */
static void set_entry(int fd, struct wrapper_desc *desc)
{
    int high = atomic_load(&fd_high);
    uint32_t old;

    while (high < fd && !atomic_compare_exchange_weak(&fd_high, &high, fd))
        ;
    old = atomic_exchange(&wrapper_fd_table[fd], (uint32_t)(desc - wrapper_fd_descs) + 1);
    if (fd <= STDERR_FILENO) /* they have a stream */
        wrapper_fd_unrecord_stream(fd);
    if (old)
        desc_drop(wrapper_fd_desc_of(old), -1, NULL, NULL); /* was closed behind our back */
}

static int add(int fd, engine_token token, enum engine_role role, const struct stat *st)
{
    struct wrapper_desc *desc = (unsigned)fd < WRAPPER_FD_MAX ? desc_get_free() : NULL;
    const struct engine_ops *ops = wrapper_engine_loaded();

    if (!desc) {
        log_error(
            "descriptor %d cannot be followed: more than %d descriptors or %d files are "
            "open for "
            "writing",
            fd, WRAPPER_FD_MAX, WRAPPER_FD_DESCS);
        errno = EMFILE;
        return -1;
    }
    atomic_store(&desc->mapped, false);
    atomic_store(&desc->shared, false);
    atomic_store(&desc->token, token);
    atomic_store(&desc->recorded, false);
    atomic_store(&desc->unrecorded, !ops || !ops->write_recorded);
    atomic_store(&desc->range, 0);
    atomic_store(&desc->appends, WRAPPER_FD_UNKNOWN);
    desc->role = role;
    desc->dev = st->st_dev;
    desc->ino = st->st_ino;
    set_entry(fd, desc);
    return 0;
}

int wrapper_fd_add(int fd, engine_token token, enum engine_role role)
{
    struct stat st;

    return REAL(fstat)(fd, &st) < 0 ? -1 : add(fd, token, role, &st);
}

int wrapper_fd_inherit(int fd, engine_token token, enum engine_role role)
{
    int high = atomic_load(&fd_high);

    for (int i = 0; i <= high; i++) {
        struct wrapper_desc *desc = wrapper_fd_desc(i);
        if (desc && atomic_load(&desc->token) == token)
            return wrapper_fd_give(wrapper_fd_hold(i), fd) < 0 ? -1 : 0;
    }
    return wrapper_fd_add(fd, token, role);
}

/* A holder (dup) raises refs before it looks whether the entry still names the record. If
 * the record was recycled in between, the entry names the new use, which is then what fd
 * is. */
struct wrapper_desc *wrapper_fd_hold(int fd)
{
    uint32_t entry = atomic_load(&wrapper_fd_table[fd]);
    struct wrapper_desc *desc = wrapper_fd_desc_of(entry);
    int refs;

    if (!desc)
        return NULL;
    refs = atomic_load(&desc->refs);
    do {
        if (refs <= 0)
            return NULL; /* being closed by another thread */
    } while (!atomic_compare_exchange_weak(&desc->refs, &refs, refs + 1));
    if (atomic_load(&wrapper_fd_table[fd]) != entry) {
        desc_drop(desc, -1, NULL, NULL);
        return NULL;
    }
    return desc;
}

int wrapper_fd_give(struct wrapper_desc *desc, int new_fd)
{
    if (!desc)
        return new_fd;
    if ((unsigned)new_fd < WRAPPER_FD_MAX)
        set_entry(new_fd, desc);
    else
        desc_drop(desc, -1, NULL, NULL);
    return new_fd;
}

struct gated_closer {
    wrapper_closer *closer;
    void *arg;
};

/* Others may fork during the publish, which comes after the real close. */
static int close_gated(int fd, void *arg)
{
    struct gated_closer *gated = arg;
    int rc;

    pthread_cleanup_push(wrapper_gate_leave_cleanup, NULL);
    rc = gated->closer(fd, gated->arg);
    pthread_cleanup_pop(1);
    return rc;
}

/* The entry is taken out before the real close: afterwards another thread may own the
 * number. So a descriptor that two threads close at once is settled by the one that took
 * the entry. */
int wrapper_fd_close(int fd, wrapper_closer *closer, void *arg)
{
    struct gated_closer gated = {closer, arg};
    struct wrapper_desc *desc;

    wrapper_gate_enter();
    desc = wrapper_fd_desc_of(atomic_exchange(&wrapper_fd_table[fd], 0));
    return desc ? desc_drop(desc, fd, close_gated, &gated) : close_gated(fd, &gated);
}

static int real_closer(int fd, void *arg)
{
    (void)arg;
    return REAL(close)(fd);
}

int wrapper_fd_close_real(int fd)
{
    return wrapper_fd_close(fd, real_closer, NULL);
}

int wrapper_fd_move_aside(int fd)
{
    struct wrapper_desc *desc = wrapper_fd_hold(fd);
    int saved = errno, aside;

    if (!desc)
        return -1;
    aside = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 64);
    if (aside < 0) /* a small RLIMIT_NOFILE: any number */
        aside = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 0);
    if ((unsigned)aside >= WRAPPER_FD_MAX) {
        if (aside >= 0)
            REAL(close)(aside);
        desc_drop(desc, -1, NULL, NULL);
        errno = saved;
        return -1;
    }
    set_entry(aside, desc);
    /* fd's own entry goes now, its reference with it: what dup2 puts there is another
     * description. */
    desc = wrapper_fd_desc_of(atomic_exchange(&wrapper_fd_table[fd], 0));
    if (desc)
        desc_drop(desc, -1, NULL, NULL);
    errno = saved;
    return aside;
}

void wrapper_fd_move_back(int aside, int fd)
{
    int saved = errno;
    struct wrapper_desc *desc = wrapper_fd_hold(aside);

    if (desc) {
        set_entry(fd, desc);
        wrapper_fd_close_real(aside);
    }
    errno = saved;
}

int wrapper_fd_desc_drop(struct wrapper_desc *desc, int fd, wrapper_closer *closer,
                         void *arg)
{
    return desc_drop(desc, fd, closer, arg);
}

void wrapper_fd_desc_again(struct wrapper_desc *desc)
{
    atomic_fetch_add(&desc->refs, 1);
}

bool wrapper_fd_desc_is_last(const struct wrapper_desc *desc)
{
    return atomic_load(&desc->refs) == 1;
}

void wrapper_fd_desc_mapped(struct wrapper_desc *desc)
{
    atomic_store(&desc->mapped, true);
}

void wrapper_fd_desc_stored(struct wrapper_desc *desc)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    engine_token token = atomic_load(&desc->token);

    if (ops && token)
        ENGINE_CALL_VOID(ops->write_stored(token));
}

void wrapper_fd_desc_zero(struct wrapper_desc *desc)
{
    atomic_store(&desc->refs, 0);
}

void wrapper_fd_foreach(void (*fn)(int fd, void *arg), void *arg)
{
    int high = atomic_load(&fd_high);

    for (int fd = 0; fd <= high; fd++)
        if (atomic_load_explicit(&wrapper_fd_table[fd], memory_order_relaxed))
            fn(fd, arg);
}

void wrapper_fd_close_all(unsigned first, unsigned last)
{
    int high = atomic_load(&fd_high);

    for (unsigned fd = first; high >= 0 && fd <= (unsigned)high && fd <= last; fd++)
        if (atomic_load_explicit(&wrapper_fd_table[fd], memory_order_relaxed))
            wrapper_fd_close_real((int)fd);
}

static void look_kept(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    int flags = REAL(fcntl)(fd, F_GETFD);

    (void)arg;
    if (desc && flags >= 0 && !(flags & FD_CLOEXEC))
        atomic_store(&desc->kept, true);
}

static void clear_kept(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);

    (void)arg;
    if (desc)
        atomic_store(&desc->kept, false);
}

static void settle_unkept(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = arg;
    struct engine_closing closing;
    engine_token token;

    if (!desc || atomic_load(&desc->kept))
        return;
    if (atomic_load(&desc->shared)) {
        /* The lock shows whether others hold it, but only when it is closed here. If exec
         * fails the descriptor is gone: exec was to close it, and its file is safe. */
        wrapper_fd_close_real(fd);
        return;
    }
    if (!(token = atomic_exchange(&desc->token, 0)))
        return;
    /* The descriptor cannot be closed, since exec may fail: tell the engine that the
     * process that still holds the file is this one, as for a mapping. */
    ENGINE_CALL_VOID(ops->write_closing(token, is_same_file(desc, fd) ? fd : -1, &closing));
    ENGINE_CALL(ops->write_closed(&closing, 0, true));
}

void wrapper_fd_exec_begin(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    int saved = errno;

    if (!ops)
        return;
    wrapper_fd_foreach(clear_kept, NULL);
    wrapper_fd_foreach(look_kept, NULL);
    wrapper_fd_foreach(settle_unkept, (void *)ops);
    errno = saved;
}

static void resume(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);
    const struct engine_ops *ops = arg;

    if (desc && !atomic_load(&desc->token) && is_same_file(desc, fd))
        atomic_store(&desc->token, ENGINE_CALL(ops->write_inherited(desc->role, fd)));
}

void wrapper_fd_exec_failed(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    int saved = errno;

    if (ops)
        wrapper_fd_foreach(resume, (void *)ops);
    errno = saved;
}

static void zero_refs(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);

    (void)arg;
    atomic_store(&desc->refs, 0);
}

static void count_ref(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);

    (void)arg;
    atomic_fetch_add(&desc->refs, 1);
}

static void share(int fd, void *arg)
{
    struct wrapper_desc *desc = wrapper_fd_desc(fd);

    (void)arg;
    if (desc)
        atomic_store(&desc->shared, true);
}

void wrapper_fd_fork_begin(void)
{
    wrapper_fd_foreach(share, NULL);
}

void wrapper_fd_fork_child(void)
{
    /* Alone here: the other threads are gone. Records they were settling have no entry and
     * are lost, 32 bytes each. */
    wrapper_fd_foreach(zero_refs, NULL);
    wrapper_fd_foreach(count_ref, NULL);
}
