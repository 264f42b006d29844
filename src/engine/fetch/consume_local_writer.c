/*
 * consume_local_writer.c - a consume of a file that a process of this node is writing
 *
 * The writer's end is two things: its publish, for which consume.c keeps a look-up, and the
 * end of its descriptions, by which an abandoned file is known. For the latter a thread of
 * its own sleeps in the kernel's lock wait, and rules on the mark.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/fetch/consume_impl.h"
#include "util/clock.h"
#include "util/log.h"

struct writer_watch { /* freed by the pool if the member is gone first: see
                         engine_io_spawn() */
    struct engine_io io;
    struct store_marks *marks;
    store_mark_t mark;
    int fd;
    struct consume *consume; /* NULL: it has ended meanwhile */
    void (*over)(struct consume *c);
};

static void watch_work(void *arg)
{
    struct writer_watch *w = arg;

    store_marks_wait(w->marks, w->mark, w->fd);
    store_marks_rule(w->marks, w->mark, w->fd);
    store_marks_destroy(w->marks);
    close(w->fd);
}

static void watch_done(void *arg)
{
    struct writer_watch *w = arg;
    struct consume *c = w->consume;
    void (*over)(struct consume *) = w->over;

    free(w);
    if (c) {
        c->watch = NULL;
        over(c);
    }
}

void consume_watch_start(struct consume *c, struct member_dmd *dmd,
                         const struct store_mark_info *info, int fd,
                         void (*over)(struct consume *c))
{
    struct writer_watch *w;

    if (c->watch || !(w = calloc(1, sizeof(*w))))
        return;
    /* A mapping of its own: the thread may outlive the member. */
    w->marks = store_marks_create(dmd->dir);
    w->mark = info->mark;
    w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    w->consume = c;
    w->over = over;
    if (!w->marks || w->fd < 0 ||
        engine_io_spawn(c->member->io, &w->io, watch_work, watch_done, w) < 0) {
        log_warn("cannot wait for the writer of \"%s\": %m", c->upath);
        if (w->fd >= 0)
            close(w->fd);
        if (w->marks)
            store_marks_destroy(w->marks);
        free(w);
        return;
    }
    c->watch = w;
}

void consume_watch_leave(struct consume *c)
{
    if (c->watch)
        c->watch->consume = NULL;
}

/* The thread that waits for a writer which is dead will come back by itself. (It may have
 * closed its descriptor by now; then it is on its way.) */
bool consume_watch_ending(const struct consume *c)
{
    return c->watch && store_marks_ruling_due(c->member->dmd[ENGINE_CONSUMER].marks,
                                              c->watch->mark, c->watch->fd);
}

/* Also an open that does not wait for unpublished files must not read half a file. */
void consume_wait_for_writer(struct consume *c)
{
    if (c->flags & NET_LOOKUP_WAIT)
        return;
    c->flags |= NET_LOOKUP_WAIT;
    c->for_writer = true;
    consume_deadline_start(c);
}

/* The writer that it waited for died, or removed the file: no other is waited for. */
void consume_writer_gone(struct consume *c)
{
    if (!c->for_writer)
        return;
    c->flags &= ~NET_LOOKUP_WAIT;
    c->for_writer = false;
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
}
