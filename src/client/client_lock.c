/*
 * client_lock.c - locks of this process on files that several nodes write
 *
 * The member has them for the process, until it gives them up, closes the file or ends.
 */
#include "client/client_lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "client/client_fd_name.h"
#include "client/client_impl.h"
#include "client/client_names.h"
#include "store/marks.h"
#include "util/log.h"

_Static_assert(ENGINE_LOCK_NONE == NET_LOCK_NONE && ENGINE_LOCK_READ == NET_LOCK_READ &&
                   ENGINE_LOCK_WRITE == NET_LOCK_WRITE &&
                   ENGINE_LOCK_WAIT == NET_LOCK_WAIT && ENGINE_LOCK_TEST == NET_LOCK_TEST,
               "the same to the member");

/* Some lock was asked for: set before that. A child of fork, which has none of its parent's, may give
 * up what it has not; what exec has kept is not known. */
static atomic_bool has_locked;

static int ask(const char *upath, uint64_t offset, uint64_t length, unsigned flags)
{
    bool appends = offset == STORE_LOCK_APPEND;
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg reply, request = {.type = NET_MSG_GUEST_LOCK,
                                     .flags = (uint8_t)flags,
                                     .entry = {.upath = upath},
                                     .offset = offset,
                                     .length = length,
                                     .mark = appends ? (uint64_t)gettid() : 0};
    struct client_asking a = {.client = client_get(),
                              .request = &request,
                              .reply = &reply,
                              .buf = buf,
                              .size = sizeof(buf),
                              .interruptible = flags & NET_LOCK_WAIT};

    return client_ask(&a);
}

static void ask_unless_over(const char *upath, uint64_t offset, uint64_t length,
                            unsigned flags)
{
    if (!client_member_over())
        ask(upath, offset, length, flags);
}

int client_lock(enum engine_role role, int fd, const char *first, uint64_t offset,
                uint64_t length, enum engine_lock type, unsigned flags)
{
    char *upath = client_fd_name(&client_get()->dmd[role], fd);
    int rc = -1, saved = errno;

    if (type == ENGINE_LOCK_NONE && first && (!upath || strcmp(first, upath) != 0))
        ask_unless_over(first, offset, length, NET_LOCK_NONE); /* by which it was locked */
    if (upath && !client_member_over()) {
        if (type != ENGINE_LOCK_NONE)
            atomic_store(&has_locked, true);
        rc = ask(upath, offset, length, flags | type);
        if (rc < 0 && errno == EINTR) { /* it may have been had at that moment */
            ask(upath, offset, length, NET_LOCK_NONE);
            errno = EINTR;
        } else if (rc < 0 && errno != EAGAIN) {
            errno = ENOLCK;
        }
    } else if (type == ENGINE_LOCK_NONE) {
        rc = 0;
    } else if (!upath) {
        errno = ENOENT;
    } else {
        log_error(
            "\"%s\" cannot be locked, which other nodes write, too: this rank has left",
            upath);
        errno = ENOLCK;
    }
    client_name_free(upath);
    if (rc == 0)
        errno = saved;
    return rc;
}

void client_lock_inherited(void)
{
    atomic_store(&has_locked, true);
}

void client_lock_closing(enum engine_role role, store_mark_t mark, const char *upath,
                         const char *first)
{
    if (!atomic_load_explicit(&has_locked, memory_order_relaxed) ||
        !store_marks_shared_file(client_get()->dmd[role].marks, mark))
        return;
    if (upath)
        ask_unless_over(upath, 0, STORE_LOCKS_END, NET_LOCK_NONE);
    if (first && (!upath || strcmp(first, upath) != 0))
        ask_unless_over(first, 0, STORE_LOCKS_END, NET_LOCK_NONE);
}
