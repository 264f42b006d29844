/*
 * adopt_unrecorded.c - what a dead rank of this node had published, and its journal does
 * not know
 *
 * The homes have a version with the dead rank as its owner, and our storage; the journal
 * knows nothing of it, or an older version, so whoever takes that over does not serve it.
 * Either the journal could not be written (the disk was full, or a limit on the process
 * stood in the way: catch_up.c) when the rank was killed. Or it was killed in its close:
 * the homes are told first, the journal is written when they have answered, and then the
 * file's mark goes (produce.c). Of two homes only one may have been told.
 *
 * We hear of such a file
 * - in a look, as one that is not what the journal says of it (adopt.c);
 * - from who wants it and found its owner gone (consume_owner.c), by an INVALIDATE like
 *   that of a home which asks us in the place of the dead rank, but with that rank as the
 *   owner of what is "newer", and our storage;
 * - in the same way from a home which finds, a second after the death, that nobody has
 *   taken over what it knows to be the dead rank's (dht/node_leave.c). It has told the
 *   other homes before.
 *
 * In either case the homes are asked what is published now, and whose it is. If it is the
 * dead rank's, and lies in our storage, there is another look: only with the dead rank's
 * journal open, so that it is certainly dead and no two of us do this at once, the file is
 * compared.
 * - A process that lives writes it: that one publishes it.
 * - It has the size, mtime and mode of what is published, and nobody who wrote to it was
 *   killed before its close had begun: it is that, for whoever had written to it since
 *   would have left a mark, or published it. It is taken over like what the journal knows.
 *   The mark of a close that was cut short goes: what was to be written was.
 * - It is not here: who removed it died before it had said so. It is withdrawn
 *   (adopt_gone.c).
 * - It is something else: half of a version, or what a program without the wrapper has
 *   made of it. The version that is published is nowhere any more. With a launcher an open
 *   fails for that, with a line that names the dead owner (EHOSTUNREACH). In a session
 *   directory it would wait for somebody of this node to serve it, for ever: so there it is
 *   withdrawn, too, and an open waits for somebody to write it. (Not on storage that nodes
 *   share, where somebody of another may be writing it.)
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
        dyad_version_cmp(&entry->version, &u->version) >= 0)
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

/* Taken over, and the homes have yet to hear of that. */
static bool is_ours(const struct member *member, const struct dyad_entry *entry)
{
    for (int s = 0; s < 2; s++) {
        const struct store_record *own =
            member->side[s].journal
                ? store_journal_find(member->side[s].journal, entry->upath)
                : NULL;
        if (own && own->kind == STORE_RECORD_ORIGINAL &&
            dyad_version_cmp(&own->entry.version, &entry->version) >= 0)
            return true;
    }
    return false;
}

void adopt_unrecorded_wanted(struct member *member, uint32_t rank,
                             const struct dyad_entry *entry)
{
    if (!is_ours(member, entry) && entry->state == DYAD_ENTRY_PUBLISHED &&
        entry->owner == rank && rank != member->self.rank && lies_here(member, entry))
        add(member, entry->upath, rank, NULL);
}

/* Does a process that lives write it, or is that not to be found out? Else its marks are
 * all ABANDONED. */
static bool is_being_written(struct member_side *side, const char *upath,
                             const struct store_identity *id)
{
    struct store_mark_info info;
    struct store_identity file;
    store_mark_t last = 0;
    bool is = false;
    int fd = -1;

    while (!is && store_marks_dirty(side->marks, upath, id->ino, id->btime, &info) &&
           info.state != STORE_MARK_ABANDONED) {
        if (fd < 0)
            fd = store_dir_open(side->dir, upath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        is = info.mark == last || fd < 0 || store_identity_read(fd, &file) < 0 ||
             file.ino != id->ino || file.btime != id->btime;
        if (!is)
            store_marks_rule(side->marks, info.mark, fd);
        last = info.mark; /* if it is found again it has not been ruled: it lives */
    }
    if (fd >= 0)
        close(fd);
    return is;
}

enum adopt_here adopt_unrecorded_is(struct member_side *side,
                                    const struct dyad_entry *entry,
                                    struct store_record *record)
{
    struct dyad_entry here = {0};
    struct store_identity id;
    struct stat st;
    bool read;
    int fd;

    if (!dyad_storage_equal(entry->storage, store_dir_id(side->dir)))
        return ADOPT_HERE_UNKNOWN;
    *record = (struct store_record){.kind = STORE_RECORD_ORIGINAL, .entry = *entry};
    if ((fd = store_dir_open(side->dir, entry->upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return store_dir_lacks(side->dir, entry->upath) ? ADOPT_HERE_GONE
                                                        : ADOPT_HERE_UNKNOWN;
    read = fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0;
    close(fd);
    if (!read || S_ISDIR(st.st_mode) || is_being_written(side, entry->upath, &id))
        return ADOPT_HERE_UNKNOWN;
    store_dir_describe(side->dir, &st, &here);
    if (here.size != entry->size || here.mode != entry->mode ||
        here.mtime_sec != entry->mtime_sec || here.mtime_nsec != entry->mtime_nsec ||
        !store_marks_take_closed(side->marks, id.ino, id.btime))
        return ADOPT_HERE_OTHER;
    record->identity = id;
    return ADOPT_HERE_SAME;
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
