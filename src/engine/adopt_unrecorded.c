/*
 * adopt_unrecorded.c - what a dead rank of this node had published, and could not write
 * into its journal
 *
 * The disk was full, or a limit on the process stood in the way (catch_up.c), and it was
 * killed before that was over. The file lies here, complete, and the homes know its
 * version, size, mtime and mode, with the dead rank as its owner; only the journal knows
 * nothing of it, or an older version, so whoever takes the journal over does not serve it.
 *
 * We hear of such a file
 * - in a look, as one that is not what the journal says of it (adopt.c);
 * - from who wants it and found its owner gone (consume_owner.c), by an INVALIDATE like
 *   that of a home which asks us in the place of the dead rank, but with that rank as the
 *   owner of what is "newer", and our storage.
 *
 * In either case the homes are asked what is published now, and whose it is. If it is the
 * dead rank's, and lies in our storage, there is another look: only with the dead rank's
 * journal open, so that it is certainly dead and no two of us do this at once, the file is
 * compared. If nobody writes it, and it has the size, mtime and mode of what is published,
 * it is that: whoever had written to it since would have left a mark, or published it. Then
 * it is taken over like what the journal knows.
 *
 * Two neighbours may still do so one after the other, if both have heard from the homes
 * before the first has told them. Then both serve the same file, and the homes know the
 * second.
 *
 * What a look has found is asked for until homes can be reached (questions.c). What a
 * consumer wants is not: that one asks again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/adopt_impl.h"
#include "engine/questions.h"
#include "util/log.h"

struct unrecorded {
    struct question question;
    uint32_t rank;
    struct dyad_version version; /* that its journal has */
    bool asks_on;
};

static bool lies_here(const struct member *member, const struct dyad_entry *entry)
{
    for (int s = 0; s < 2; s++)
        if (member->side[s].dir &&
            dyad_storage_equal(entry->storage, store_dir_id(member->side[s].dir)))
            return true;
    return false;
}

static enum question_next answered(struct question *question, int status,
                                   const struct dyad_entry *entry,
                                   struct question_pause *pause)
{
    const struct unrecorded *u = (struct unrecorded *)question;
    struct member *member = questions_arg(question);

    (void)pause;
    if (status != 0 && status != ENOENT && u->asks_on)
        return QUESTION_PUT_OFF;
    if (status == 0 && entry->owner == u->rank && lies_here(member, entry) &&
        dyad_version_cmp(&entry->version, &u->version) > 0)
        adopt_look_for(member, entry, u->rank);
    return QUESTION_OVER;
}

static void stepped(void *arg)
{
    if (!adopt_unrecorded_pending(arg))
        linger_activity(arg);
}

static const struct questions_ops ops = {
    .size = sizeof(struct unrecorded),
    .window = 64,
    .tick = UTIL_NSEC_PER_SEC / 4,
    .pause = {.first = MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC,
              .most = 60 * UTIL_NSEC_PER_SEC},
    .answered = answered,
    .stepped = stepped,
};

static void add(struct member *member, const char *upath, uint32_t rank,
                const struct dyad_version *version)
{
    struct member_run *run = run_of(member);
    struct unrecorded *u;

    if (!run->unrecorded)
        run->unrecorded = questions_create(member, &ops, member);
    if (!(u = questions_add(run->unrecorded, upath))) {
        log_error("out of memory: \"%s\", which a dead rank had, may not be served", upath);
        return;
    }
    u->rank = rank;
    u->asks_on = version != NULL;
    if (version)
        u->version = *version;
    questions_go_on(run->unrecorded);
}

void adopt_unrecorded_changed(struct member *member, uint32_t rank,
                              const struct store_record *found)
{
    add(member, found->entry.upath, rank, &found->entry.version);
}

void adopt_unrecorded_wanted(struct member *member, uint32_t rank,
                             const struct dyad_entry *entry)
{
    if (entry->state == DYAD_ENTRY_PUBLISHED && entry->owner == rank &&
        rank != member->self.rank && lies_here(member, entry))
        add(member, entry->upath, rank, NULL);
}

bool adopt_unrecorded_is(struct member_side *side, const struct dyad_entry *entry,
                         struct store_record *record)
{
    int fd = store_dir_open(side->dir, entry->upath, O_PATH | O_NOFOLLOW, 0);
    struct dyad_entry here = {0};
    struct store_identity id;
    struct stat st;
    bool same;

    if (fd < 0)
        return false;
    same = fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && store_identity_read(fd, &id) == 0;
    close(fd);
    if (!same)
        return false;
    store_dir_describe(side->dir, &st, &here);
    if (!dyad_storage_equal(here.storage, entry->storage) || here.size != entry->size ||
        here.mode != entry->mode || here.mtime_sec != entry->mtime_sec ||
        here.mtime_nsec != entry->mtime_nsec ||
        store_marks_dirty(side->marks, entry->upath, id.ino, id.btime, NULL))
        return false;
    *record = (struct store_record){
        .kind = STORE_RECORD_ORIGINAL, .entry = *entry, .identity = id};
    return true;
}

bool adopt_unrecorded_pending(struct member *member)
{
    return questions_asking(run_of(member)->unrecorded);
}

void adopt_unrecorded_stop(struct member *member)
{
    questions_destroy(run_of(member)->unrecorded);
    run_of(member)->unrecorded = NULL;
}
