/*
 * client_record.c - the record of what this process writes (store/extents.h)
 *
 * Called for each write to a recorded file, perhaps in a signal handler: no lock, no memory.
 */
#include "client/client_record.h"

#include <errno.h>
#include <fcntl.h>

#include "client/client.h"
#include "client/client_write.h"
#include "store/extents.h"

static const struct client_dmd *dmd_of(engine_token token)
{
    return &client_get()->dmd[token & TOKEN_PRODUCER ? ENGINE_PRODUCER : ENGINE_CONSUMER];
}

bool client_write_recorded(engine_token token)
{
    const struct client_dmd *dmd = dmd_of(token);
    uint64_t ino, btime;

    return dmd->extents &&
           store_marks_file(dmd->marks, token & ~TOKEN_PRODUCER, &ino, &btime);
}

bool client_write_joint(engine_token token)
{
    return store_marks_joint(dmd_of(token)->marks, token & ~TOKEN_PRODUCER);
}

bool client_write_shared(engine_token token)
{
    return store_marks_shared_file(dmd_of(token)->marks, token & ~TOKEN_PRODUCER);
}

bool client_write_is_known(engine_token token, int fd)
{
    const struct client_dmd *dmd = dmd_of(token);
    struct store_extent_list list;
    struct store_identity id;
    struct dyad_base base;
    bool is;

    if (!dmd->extents || store_identity_read(fd, &id) < 0 ||
        store_extents_version(dmd->extents, id.ino, id.btime, &base) ||
        store_extents_list(dmd->extents, id.ino, id.btime, NULL, 0, 0, &list) < 0)
        return true;
    is = list.n || list.ncuts;
    store_extent_list_free(&list);
    return is;
}

/* Before anybody writes: what is recorded are changes of the version that was found. */
static void add_version(const struct client_dmd *dmd, store_mark_t mark)
{
    struct dyad_base base, last;
    uint64_t ino, btime;

    store_marks_base(dmd->marks, mark, &base);
    /* Others of this node have it open, and what they found counts. */
    if (store_marks_file(dmd->marks, mark, &ino, &btime) &&
        store_extents_version(dmd->extents, ino, btime, &last) &&
        store_marks_dirty_beside(dmd->marks, mark, NULL, ino, btime))
        return;
    if ((base.kind == DYAD_BASE_FROM || base.kind == DYAD_BASE_OVERTAKEN) && base.time &&
        store_marks_file(dmd->marks, mark, &ino, &btime))
        store_extents_add_version(dmd->extents, ino, btime, &base);
}

void client_write_record_begin(engine_token token, bool may, bool later, bool since,
                               bool begun)
{
    const struct client_dmd *dmd = dmd_of(token);
    store_mark_t mark = token & ~TOKEN_PRODUCER;
    uint64_t ino, btime;

    if (!dmd->extents)
        return;
    /* A process that opens the file now and does not record sees this, or is seen. */
    if (may)
        store_extents_begin(dmd->extents);
    if (may && since &&
        !begun) /* before others can find that this mark is recorded: serve.c needs both */
        add_version(dmd, mark);
    if (may && store_marks_record(dmd->marks, mark, since, &later))
        return;
    store_marks_file(dmd->marks, mark, &ino, &btime);
    store_extents_add_unknown(dmd->extents, ino, btime, mark);
    if (later) /* not before: who joins counts from then on */
        store_marks_record_later(dmd->marks, mark);
    else
        store_marks_unrecord(dmd->marks, mark);
}

uint64_t client_write_record(engine_token token, uint64_t last, uint64_t offset,
                             uint64_t length)
{
    const struct client_dmd *dmd = dmd_of(token);
    store_mark_t mark = token & ~TOKEN_PRODUCER;
    uint64_t ino, btime, number;

    if (!dmd->extents || !store_marks_file(dmd->marks, mark, &ino, &btime))
        return 0;
    number = store_extents_add(dmd->extents, ino, btime, mark, last, offset, length);
    if (!number)
        store_marks_unrecord(dmd->marks, mark);
    return number;
}

bool client_write_held(engine_token token)
{
    const struct client_dmd *dmd = dmd_of(token);
    uint64_t ino, btime;

    return dmd->extents &&
           store_marks_file(dmd->marks, token & ~TOKEN_PRODUCER, &ino, &btime) &&
           store_extents_held(dmd->extents, ino, btime);
}

/* Who holds it has the lock; who was killed over it has not. */
void client_write_await(engine_token token, int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = STORE_LOCK_PIECES, .l_len = 1};
    const struct client_dmd *dmd = dmd_of(token);
    uint64_t ino, btime;
    int rc;

    while ((rc = fcntl(fd, F_OFD_SETLKW, &lock)) < 0 && errno == EINTR)
        ;
    if (rc == 0 && store_marks_file(dmd->marks, token & ~TOKEN_PRODUCER, &ino, &btime))
        store_extents_release(dmd->extents, ino, btime);
    lock.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &lock);
}

void client_write_record_end(engine_token token, uint64_t number, uint64_t planned_end,
                             uint64_t end)
{
    if (!store_extents_end(dmd_of(token)->extents, number, planned_end, end))
        client_write_unrecord(token);
}

void client_write_unrecord(engine_token token)
{
    const struct client_dmd *dmd = dmd_of(token);
    store_mark_t mark = token & ~TOKEN_PRODUCER;
    uint64_t ino, btime;

    if (!dmd->extents)
        return;
    store_marks_file(dmd->marks, mark, &ino, &btime);
    /* First: the record is not begun anew then (store_marks_record_all()), or has been before. */
    store_marks_unrecord(dmd->marks, mark);
    store_extents_add_unknown(dmd->extents, ino, btime, mark);
}
