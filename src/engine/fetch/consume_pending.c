/*
 * consume_pending.c - a consume of a pending file, which no other node writes any more, or of one that is unsettled, or
 * changed in turns (DYAD_TURNS)
 *
 * Such a file is the newest version, as a rule. If it is not, nothing else may say so
 * (publish/pieces_take.c): so that is looked up before it is pending no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/probes.h"
#include "engine/core/completion.h"
#include "engine/core/local_file.h"
#include "engine/core/turns.h"
#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"
#include "store/superseded.h"

/* Who writes it again, and publishes it while we look, has changed it before it became pending
 * once more. */
static void not_pending(const struct consume *c)
{
    const struct member_dmd *dmd = &c->member->dmd[ENGINE_CONSUMER];
    struct store_identity id;
    struct stat st;
    int fd;

    if (completion_holds(c->member, c->upath))
        return; /* the others of this node are to wait */
    store_superseded_clear(dmd->dir, dmd->session, c->upath, STORE_PENDING);
    if ((fd = store_dir_open(dmd->dir, c->upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return;
    if (fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0 &&
        (st.st_size != c->here.size || st.st_mtim.tv_sec != c->here.mtime.tv_sec ||
         st.st_mtim.tv_nsec != c->here.mtime.tv_nsec))
        local_file_set_pending(dmd, c->upath, &id);
    close(fd);
}

/* The file here is that version, or the one that its owner serves; or that version was fetched, and cannot take its place. */
static bool is_here(const struct consume *c, const struct dyad_entry *entry)
{
    return dyad_storage_equal(entry->storage,
                              store_dir_id(c->member->dmd[ENGINE_CONSUMER].dir)) ||
           (c->taken && !dyad_version_cmp(&entry->version, &c->entry.version)) ||
           (entry->size == (uint64_t)c->here.size &&
            entry->mtime_sec == c->here.mtime.tv_sec &&
            entry->mtime_nsec == (uint32_t)c->here.mtime.tv_nsec);
}

/* Who was to say so has been killed, perhaps. */
static void is_settled(const struct consume *c, const struct dyad_entry *entry)
{
    const struct member_dmd *dmd = &c->member->dmd[ENGINE_CONSUMER];

    if (c->here.unsettled && entry->size == (uint64_t)c->here.size &&
        entry->mtime_sec == c->here.mtime.tv_sec &&
        entry->mtime_nsec == (uint32_t)c->here.mtime.tv_nsec)
        store_superseded_clear(dmd->dir, dmd->session, c->upath, STORE_UNSETTLED);
}

static void newest_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    void *bytes = status == 0 ? dht_lookup_take_bytes(c->lookup) : NULL;

    c->lookup = NULL;
    if (status == 0 &&
        (!is_here(c, entry) || entry->conflict || consume_is_own_turn(c, entry))) {
        consume_found(c, entry, bytes);
        return;
    }
    free(bytes);
    if ((status == 0 || status == ENOENT) && (c->here.pending || c->here.unsettled))
        not_pending(c);
    if (status == 0)
        is_settled(c, entry);
    consume_end(c, status == ENOENT ? 0 : status);
}

static bool takes_turns(const struct consume *c)
{
    return (c->flags & NET_LOOKUP_WAIT) && !c->for_writer &&
           !(c->flags & (NET_CONSUME_WRITER | NET_CONSUME_UPDATE)) &&
           probes_glob(c->member->config->turns, c->upath);
}

bool consume_may_be_newer(const struct consume *c)
{
    return c->here.unsettled || (c->here.regular && takes_turns(c));
}

bool consume_is_own_turn(struct consume *c, const struct dyad_entry *entry)
{
    c->own_turn = takes_turns(c) && S_ISREG(entry->mode) && !entry->conflict &&
                  entry->component == turns_component(c->member);
    return c->own_turn;
}

/* Its publish may have been refused for a newer one, or be about to, with other nodes' pieces in it
 * (publish/pieces_take.c): then nothing else says that it is out of date. */
bool consume_look_for_newer(struct consume *c)
{
    consume_enter(c, CONSUME_LOOK_UP);
    c->lookup = dht_node_lookup(c->member->dht, c->upath, NET_LOOKUP_COPY, NULL,
                                newest_looked_up, c);
    if (c->lookup)
        exit_barrier_activity(c->member);
    return c->lookup != NULL;
}
