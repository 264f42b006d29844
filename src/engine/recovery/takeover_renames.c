/*
 * takeover_renames.c - renames that were under way when their process was killed
 *
 * A process that renames, links or removes a file notes that in the table of the marks
 * before (store/renames.h), and clears the note when all homes know. The member of the
 * node that looks first handles the notes of a dead process of our session: it takes the
 * place in the table, and if it dies the next member takes it from there. The inode shows
 * what has happened, and so what is published and withdrawn (left_start()).
 *
 * What could go wrong: the homes cannot be told (again_later()). Not seen: that it was a
 * copy of a file of another node whose name was taken away, which stays published; and
 * the names below a directory that was exchanged with another one, which only one of the
 * two has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/publish/publish_rename.h"
#include "engine/publish/withdraw.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_impl.h"
#include "store/renames.h"
#include "util/clock.h"
#include "util/log.h"

#define PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

struct rename_left {
    struct rename_left *prev, *next; /* utlist */
    struct member *member;
    enum engine_role role;
    store_rename_t place;
    bool done;      /* the new name is the file */
    bool from_here; /* the old name is something */
    bool second;    /* of an exchange */
    char *from, *to;
};

struct takeover_renames {
    struct rename_left *deciding; /* utlist */
};

struct look {
    struct takeover *a;
    enum engine_role role;
};

static void left_free(struct rename_left *left)
{
    free(left->from);
    free(left->to);
    free(left);
}

/* --- on a pool thread --- */

static bool look_at(const struct store_rename *rename, store_rename_t place, void *arg)
{
    const struct look *look = arg;
    const struct store_dir *dir = look->a->member->dmd[look->role].dir;
    struct rename_left *left = calloc(1, sizeof(*left));
    struct stat st;

    if (!left || !(left->from = strdup(rename->from)) || !(left->to = strdup(rename->to))) {
        if (left)
            left_free(left);
        look->a->renames_unread = true;
        return false;
    }
    left->member = look->a->member;
    left->role = look->role;
    left->place = place;
    if ((*left->from && store_dir_check(left->from) < 0) ||
        (*left->to && store_dir_check(left->to) < 0))
        *left->from = *left->to = '\0'; /* nothing of ours has written that */
    left->done = *left->to && store_dir_stat(dir, left->to, &st) == 0 &&
                 (uint64_t)st.st_ino == rename->ino;
    left->from_here = *left->from && (store_dir_stat(dir, left->from, &st) == 0 ||
                                      (errno != ENOENT && errno != ENOTDIR));
    DL_APPEND(look->a->renames, left);
    return true;
}

/* Part of a look. A guest's death is noticed by the connection that it makes before it
 * renames, which ends without a request (takeover_watch()). */
void takeover_renames_look(struct takeover *a, enum engine_role role)
{
    const struct member *member = a->member;
    const char *session =
        member->config->session_dir ? member->config->session_dir : member->session;
    struct look look = {a, role};

    store_renames_left(member->dmd[role].marks, store_renames_session(session),
                       !a->looked_before, look_at, &look);
}

/* --- on the loop --- */

static void look_again(void *arg)
{
    struct takeover *a = arg;

    a->renames_again = false;
    takeover_look(a->member);
}

/* If no home can be reached, or there is no memory, the place is given back, and the next
 * look takes it again: any member's, and, because nobody else may come to look for it,
 * one of ours after pauses that double, and when a rank was lost or is back
 * (homes_changed(), an event of revalidate.c). */
static void again_later(struct takeover *a)
{
    if (!a->renames_timer &&
        !(a->renames_timer = net_timer_create(a->member->loop, look_again, a))) {
        log_error(
            "out of memory: what a process that was killed has renamed or removed "
            "may not be told to the others");
        return;
    }
    if (a->renames_again)
        return;
    a->renames_again = true;
    if (!a->renames_pause)
        a->renames_pause = seconds_ns(MEMBER_ASK_AGAIN);
    net_timer_start(a->renames_timer, util_clock_now() + a->renames_pause);
    a->renames_pause = 2 * a->renames_pause < PAUSE_MAX ? 2 * a->renames_pause : PAUSE_MAX;
}

static void homes_changed(struct member *member)
{
    struct takeover *a = OWN(member, takeover);

    a->renames_pause = 0;
    if (!a->renames_again)
        return;
    net_timer_stop(a->renames_timer);
    look_again(a);
}

static void left_end(struct rename_left *left, int status)
{
    struct member *member = left->member;
    struct store_marks *marks = member->dmd[left->role].marks;

    if (status == 0 || status == ENOENT) {
        store_renames_end(marks, left->place);
    } else {
        log_debug("what was to become of \"%s\" and \"%s\" the homes cannot be told: %s",
                  left->from, left->to, strerror(status));
        store_renames_give_back(marks, left->place);
        again_later(OWN(member, takeover));
    }
    DL_DELETE(OWN(member, takeover_renames)->deciding, left);
    left_free(left);
    exit_barrier_activity(member);
}

static void stepped(void *arg, int status)
{
    struct rename_left *left = arg;

    if ((status == 0 || status == ENOENT) && left->done && left->from_here &&
        !left->second) {
        left->second = true;
        if (produce_rename(left->member, "", left->from, stepped, left) == 0)
            return;
        status = errno;
    }
    left_end(left, status);
}

/* If the new name has the inode, the rename was done: the new name is published as if it
 * had just been reported (publish_rename.c), and the old one withdrawn, a directory with
 * all that is below it; after an exchange both are published. If the rename was not done
 * both names are unchanged, except by others, which have reported that. Only an old name
 * that does not exist here any more may still be published (the file was renamed again,
 * or removed): it is withdrawn if it is. Some time may have passed, and another node may
 * have published the old name since: so it is withdrawn only if the homes say that it
 * lies here. All of this may be done twice, and beside the takeover of the dead process's
 * journal. */
static void left_start(struct rename_left *left)
{
    struct member *member = left->member;
    int rc = 0;

    DL_APPEND(OWN(member, takeover_renames)->deciding, left);
    if (left->done) {
        log_info("\"%s\" got its name from a process that was killed: it is published",
                 left->to);
        rc = produce_rename_left(member, left->from_here ? "" : left->from, left->to,
                                 stepped, left);
    } else if (*left->from && !left->from_here) {
        rc = produce_withdraw_left(member, left->from, stepped, left);
    } else {
        left_end(left, 0);
    }
    if (rc < 0)
        left_end(left, errno);
}

void takeover_renames_decide(struct takeover *a)
{
    struct rename_left *left, *tmp, *found = a->renames;

    a->renames = NULL;
    a->looked_before = true;
    if (a->renames_unread)
        again_later(a);
    a->renames_unread = false;
    DL_FOREACH_SAFE(found, left, tmp)
    {
        left_start(left);
    }
}

bool takeover_renames_pending(const struct member *member)
{
    return OWN(member, takeover_renames)->deciding != NULL;
}

static void give_back(struct member *member, struct rename_left *list)
{
    struct rename_left *left, *tmp;

    DL_FOREACH_SAFE(list, left, tmp)
    {
        store_renames_give_back(member->dmd[left->role].marks, left->place);
        left_free(left);
    }
}

void takeover_renames_stop(struct takeover *a)
{
    struct member *member = a->member;

    give_back(member, a->renames);
    give_back(member, OWN(member, takeover_renames)->deciding);
    a->renames = OWN(member, takeover_renames)->deciding = NULL;
    if (a->renames_timer)
        net_timer_destroy(a->renames_timer);
}

const struct member_module takeover_renames_module = {
    .own = MODULE_OWN(takeover_renames),
    .homes_changed = homes_changed,
};
