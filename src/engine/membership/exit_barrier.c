/*
 * exit_barrier.c - how a member's time ends, and how a wait does that nobody will end
 *
 * Each change here (a publish or a wait begins or ends, the program exits, a descendant
 * dies) is told to the barrier (boot/wave.h) at once, as two bits and a counter. What the
 * kernel alone knows, whether the rank's processes can go on by themselves, is asked of
 * /proc, which costs some hundred microseconds: only while something waits, and not before
 * LOOK_FIRST has gone by without a change, so that no publish and no fetch pays for it;
 * then at ever longer pauses, up to a second. A program that probes for files that nobody
 * makes does so again and again: after such an answer the next wait is looked at after
 * LOOK_PROBE, until a look finds the rank busy. A descendant's death comes by its pidfd.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/procs.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/servers.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/log.h"

#define LOOK_FIRST     (1 * UTIL_NSEC_PER_MSEC)  /* after the last change; then twice ... */
#define LOOK_PROBE     (UTIL_NSEC_PER_MSEC / 50) /* in its place, if the rank probes */
#define LOOK_AGAIN     (1 * UTIL_NSEC_PER_SEC)   /* ... up to this */
#define KICK_AFTER     5                         /* looks */
#define SAY_AFTER      (10 * UTIL_NSEC_PER_SEC)  /* as waits (consume.c) */
#define LEAVE_SOON     (2 * UTIL_NSEC_PER_SEC)
#define LEAVE_EMPTY    (1 * UTIL_NSEC_PER_SEC) /* who all end at once need no hand-over */
#define BLOCKED_MAX    1024
#define DESCENDANT_MAX 64
#define THREADS_MAX    128

struct descendant {
    struct exit_barrier *barrier;
    pid_t pid;
    int fd;
    struct net_watch *watch;
};

struct exit_barrier {
    struct member *member;
    struct net_timer *timer;
    struct net_post post;
    bool posted;
    bool exiting, leaving_soon, said;
    bool handed_over;  /* leaving has begun */
    bool in_script;    /* what started this process is of its rank, too */
    uint64_t since;    /* when it came to its exit */
    pid_t launcher;    /* our parent at the start */
    uint64_t leave_at; /* 0: by the barrier */
    uint64_t activity;
    uint32_t state; /* told last */
    bool changed;   /* since the last tick */
    bool probes;    /* its last wait ended because nobody was left */
    unsigned looks;
    uint64_t pause; /* until the next one */
    struct descendant descendants[DESCENDANT_MAX];
};

static void exit_barrier_look(struct exit_barrier *b);

static void descendant_drop(struct descendant *d)
{
    net_watch_destroy(d->watch);
    close(d->fd);
    *d = (struct descendant){0};
}

static void descendant_died(void *arg, int fd, uint32_t events)
{
    struct descendant *d = arg;
    struct exit_barrier *b = d->barrier;

    (void)fd;
    (void)events;
    descendant_drop(d);
    b->activity++;
    exit_barrier_look(b);
}

static void descendant_watch(struct exit_barrier *b, pid_t pid)
{
    struct descendant *empty = NULL;

    for (int i = 0; i < DESCENDANT_MAX; i++) {
        struct descendant *d = &b->descendants[i];
        if (d->pid == pid)
            return;
        if (d->pid == 0 && !empty)
            empty = d;
    }
    int fd = empty ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0)
        return; /* the look once a second will find it gone */
    empty->barrier = b;
    empty->pid = pid;
    empty->fd = fd;
    if (!(empty->watch =
              net_loop_watch(b->member->loop, fd, EPOLLIN, descendant_died, empty))) {
        close(fd);
        *empty = (struct descendant){0};
    }
}

/* Live processes below us; while we are at exit their deaths are news. */
static size_t count_descendants(struct exit_barrier *b)
{
    pid_t pids[DESCENDANT_MAX];
    size_t n = boot_procs_descendants(getpid(), pids, DESCENDANT_MAX);

    if (b->exiting) {
        for (size_t i = 0; i < n && i < DESCENDANT_MAX; i++)
            descendant_watch(b, pids[i]);
    }
    return n;
}

/* The engine's threads, and those that PMIx made for it: each is called dyad-..., by
 * inheritance. What they do is not the program's doing. */
static size_t engine_threads(pid_t *tids, size_t max)
{
    char path[64], name[32];
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    size_t n = 0;

    while (dir && n < max && (entry = readdir(dir))) {
        ssize_t len = -1;
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", entry->d_name);
        int fd = entry->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            len = read(fd, name, sizeof(name));
            close(fd);
        }
        if (len > 5 && memcmp(name, "dyad-", 5) == 0)
            tids[n++] = (pid_t)atoi(entry->d_name);
    }
    if (dir)
        closedir(dir);
    return n;
}

static bool rank_is_quiet(struct exit_barrier *b)
{
    struct boot_blocked blocked[BLOCKED_MAX];
    pid_t own[THREADS_MAX];
    size_t n = b->member->waits->blocked(b->member, blocked, BLOCKED_MAX);

    if (n > BLOCKED_MAX)
        n = BLOCKED_MAX;
    if (n == 0)
        return false;
    return boot_procs_quiet(getpid(), b->exiting, blocked, n, own,
                            engine_threads(own, THREADS_MAX));
}

static uint32_t present_state(struct exit_barrier *b, bool *look_again)
{
    size_t alive;

    *look_again = false;
    if (modules_pending(b->member))
        return 0; /* its end is told */
    if (!b->exiting) {
        *look_again = b->member->consumes != NULL;
        return rank_is_quiet(b) ? BOOT_WAVE_QUIET : 0;
    }
    if ((alive = count_descendants(b)) == 0)
        return BOOT_WAVE_QUIET | BOOT_WAVE_EXITING;
    *look_again = true;
    return rank_is_quiet(b) ? BOOT_WAVE_QUIET : 0;
}

/* --- log lines --- */

/* One of a launch and node is enough. */
static bool is_first_of_node(struct member *member)
{
    for (uint32_t r = 0; r < member->self.rank; r++) {
        const struct net_peer *peer =
            dht_node_is_live(member->dht, r) ? net_worker_peer(member->worker, r) : NULL;
        if (peer && strcmp(peer->launch, member->self.launch) == 0 &&
            strcmp(peer->node, member->self.node) == 0)
            return false;
    }
    return true;
}

/* Only the root of the barrier knows which ranks are at exit, too: name ranks of other
 * launches, or, if there are none, of this one. */
static void name_others(struct member *member, char *to, size_t size)
{
    unsigned named = 0, more = 0;
    size_t used = 0;

    to[0] = '\0';
    for (int own = 0; own < 2 && named == 0; own++) {
        for (uint32_t r = 0; r < member->job->nranks; r++) {
            const struct net_peer *peer = r != member->self.rank &&
                                                  dht_node_is_live(member->dht, r) &&
                                                  !servers_is_one(member, r)
                                              ? net_worker_peer(member->worker, r)
                                              : NULL;
            if (!peer || (strcmp(peer->launch, member->self.launch) == 0) != (own == 1))
                continue;
            if (named == 3) {
                more++;
                continue;
            }
            used += (size_t)snprintf(to + used, size - used, "%s%s", named ? ", " : "",
                                     member_describe(member, r));
            named++;
        }
    }
    if (more)
        snprintf(to + used, size - used, " and %u more", more);
}

/* The process that started this one may wait for it, without a sign why. In a PMIx launch
 * that is the launcher, which waits for all ranks. */
static void say_still_serving(struct exit_barrier *b)
{
    struct member *member = b->member;
    char others[2048];

    if (b->said || util_clock_now() < b->since + SAY_AFTER)
        return;
    b->said = true;
    if (member->ring) {
        name_others(member, others, sizeof(others));
        util_log(
            is_first_of_node(member) ? UTIL_LOG_WARN : UTIL_LOG_INFO,
            "this program has ended, and its process goes on serving its files as long as "
            "others of the session run%s%s. Whoever waits for its end waits for theirs: "
            "DYAD_LINGER=0, or seconds, makes it leave, and so does SIGTERM, or `dyad-run "
            "--serve` on this node, which serves its files then",
            others[0] ? ": " : "", others);
    } else if (b->in_script) {
        log_warn(
            "the program of rank %u has ended, and its process goes on serving its files "
            "as long as other ranks of the job run; process %d, which started it, is of "
            "that rank, too, and may wait for it. If that is a script which is to go on, "
            "start the script itself with dyad-run",
            member->self.launch_rank, (int)b->launcher);
    } else {
        log_info(
            "the program of rank %u has ended, and its process goes on serving its files "
            "as long as other ranks of the job run",
            member->self.launch_rank);
    }
}

/* The process that started this rank is dead, and so the job is: other ranks may be
 * killed or stopped at any point, and the barrier may never come. True: we leave. */
static bool launcher_gone(struct exit_barrier *b)
{
    struct member *member = b->member;

    if (!b->exiting) {
        if (member->consumes)
            member->waits->fail(member, false);
        return false;
    }
    log_warn(
        "the launcher of rank %u has gone: leaving without waiting for the other ranks",
        member->self.launch_rank);
    member_stop(member);
    return true;
}

/* True if a member that leaves soon after its program's end must first bring awaited
 * files. */
static bool must_stay(const struct exit_barrier *b, uint64_t now)
{
    struct member *member = b->member;

    return b->exiting && !b->leaving_soon && modules_urgent(member) &&
           now < b->since +
                     (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);
}

/* Nobody can want anything of us, and our part of the table can be given away, which is so
 * in a session (session_member.c). In a launch the launcher waits for all ranks anyway. */
static bool nothing_to_serve(const struct exit_barrier *b, uint64_t now)
{
    const struct member *member = b->member;

    return member->ring && !b->leave_at && now >= b->since + LEAVE_EMPTY &&
           !dht_node_owns(member->dht);
}

static void exit_barrier_look(struct exit_barrier *b)
{
    struct member *member = b->member;
    uint64_t now = util_clock_now();
    bool look_again;
    uint32_t state;

    if (member->state == MEMBER_LEAVING || b->handed_over)
        return;
    if (b->leave_at && (now >= b->leave_at || (b->leaving_soon && !member->produces)) &&
        !must_stay(b, now)) {
        member_stop(member);
        return;
    }
    /* Where no launcher was, a shell that ends before what it started is nothing special.
     */
    if (!b->member->identity->solo && getppid() != b->launcher && launcher_gone(b))
        return;
    state = present_state(b, &look_again);
    if ((state & BOOT_WAVE_EXITING) && !b->leave_at &&
        (servers_serve_us(member) || nested_is_served(member))) {
        log_info("leaving: what is here is served by another process of this node");
        b->handed_over = true;
        member_stop(member);
        return;
    }
    if ((state & BOOT_WAVE_EXITING) && nothing_to_serve(b, now)) {
        log_info("leaving: nothing that is published is served by this process");
        member_stop(member);
        return;
    }
    /* Not while one of its processes fetches, perhaps from a rank that would leave for it.
     */
    if (member->ring && nested_has_inner(member) && member->waits->all_blocked(member))
        state |= BOOT_WAVE_OUTER;
    if ((state & BOOT_WAVE_EXITING) && b->in_script)
        state |= BOOT_WAVE_SCRIPT;
    if (state && member->wave && unreachable_missing(member, false) != DYAD_RANK_NONE)
        state |= BOOT_WAVE_MISSING;
    if (state != b->state)
        b->activity++;
    b->state = state;
    if (b->leave_at && b->leave_at - now < LOOK_AGAIN)
        net_timer_start(b->timer, b->leave_at);
    else if (look_again || state || b->leave_at)
        net_timer_start(b->timer, now + (state ? LOOK_AGAIN : b->pause));
    else
        net_timer_stop(b->timer);
    if (member->wave) /* last: its verdict may end everything */
        boot_wave_set(member->wave, state, b->activity);
}

static void suspect(void *arg, uint32_t rank)
{
    unreachable_suspect(arg, rank);
}

static void exit_barrier_tick(void *arg)
{
    struct exit_barrier *b = arg;
    struct member *member = b->member;
    bool changed = b->changed; /* then this is no look of silence */

    b->changed = false;
    exit_barrier_look(b);
    if (member->state != MEMBER_LEAVING && b->exiting && (b->state & BOOT_WAVE_EXITING))
        say_still_serving(b);
    if (b->pause < LOOK_AGAIN && !b->state) {
        if (!modules_pending(member))
            b->probes = false;
        b->pause = b->pause < LOOK_FIRST ? LOOK_FIRST : 2 * b->pause;
        return;
    }
    if (changed || member->state == MEMBER_LEAVING || !member->wave ||
        ++b->looks % KICK_AFTER != 0)
        return;
    boot_wave_kick(member->wave);
    /* A cut link is as silent as a busy rank. */
    if (member->state != MEMBER_LEAVING)
        boot_wave_neighbours(member->wave, suspect, member);
}

static void exit_barrier_posted(void *arg)
{
    struct exit_barrier *b = arg;

    b->posted = false;
    exit_barrier_look(b);
}

static void look_soon(struct exit_barrier *b)
{
    if (b->posted)
        return;
    b->posted = true;
    net_loop_post(b->member->loop, &b->post, exit_barrier_posted, b);
}

/* A rank that neither waits nor exits, and has not started a launch, is busy, whatever
 * /proc says. Then not even a timer is started: a loop that sleeps with a short timeout
 * makes a publish take a tenth more. */
static void look_after_change(struct exit_barrier *b)
{
    if (b->exiting || b->leave_at || b->member->consumes || nested_has_started(b->member)) {
        uint64_t at = util_clock_now() + b->pause;
        net_timer_start(b->timer, b->leave_at && b->leave_at < at ? b->leave_at : at);
    } else {
        net_timer_stop(b->timer);
    }
}

void exit_barrier_activity(struct member *member)
{
    struct exit_barrier *b = OWN(member, exit_barrier);

    if (!b->timer)
        return;
    b->activity++;
    b->pause = b->probes ? LOOK_PROBE : LOOK_FIRST;
    b->changed = true;
    /* The barrier learns it now, not at the look: a request that arrives in between would
     * be answered with what was true before. Busy, so no verdict can come from inside; the
     * look may find otherwise. */
    b->state = 0;
    if (member->wave)
        boot_wave_set(member->wave, 0, b->activity);
    look_after_change(b);
}

void exit_barrier_nobody_left(struct member *member)
{
    OWN(member, exit_barrier)->probes = true;
}

void exit_barrier_look_soon(struct member *member)
{
    if (OWN(member, exit_barrier)->timer)
        look_soon(OWN(member, exit_barrier));
}

bool exit_barrier_may_leave(const struct member *member)
{
    const struct exit_barrier *b = OWN(member, exit_barrier);

    return b->exiting && (b->state & BOOT_WAVE_EXITING);
}

static void exit_barrier_begin(struct member *member)
{
    struct exit_barrier *b = OWN(member, exit_barrier);

    b->exiting = true;
    b->since = util_clock_now();
    b->in_script = boot_procs_same_rank(b->launcher, member->identity);
    if (member->config->linger >= 0)
        b->leave_at = util_clock_now() + 1 +
                      (uint64_t)(member->config->linger * (double)UTIL_NSEC_PER_SEC);
    b->activity++;
    /* After every module has had the event `exiting`: their pending work counts. */
    look_soon(b);
}

static void exit_barrier_leave_soon(struct member *member)
{
    struct exit_barrier *b = OWN(member, exit_barrier);

    if (!b->timer || member->state == MEMBER_JOINING) {
        member_stop(member);
        return;
    }
    b->leaving_soon = true;
    b->leave_at = util_clock_now() + LEAVE_SOON;
    look_soon(b);
}

static void exiting(struct member *member, bool soon)
{
    if (soon)
        exit_barrier_leave_soon(member);
    else
        exit_barrier_begin(member);
}

static int exit_barrier_start(struct member *member)
{
    struct exit_barrier *b = OWN(member, exit_barrier);

    b->member = member;
    b->launcher = getppid();
    b->pause = LOOK_AGAIN;
    b->timer = net_timer_create(member->loop, exit_barrier_tick, b);
    return b->timer ? 0 : -1;
}

static void exit_barrier_destroy(struct member *member)
{
    struct exit_barrier *b = OWN(member, exit_barrier);

    for (int i = 0; i < DESCENDANT_MAX; i++) {
        if (b->descendants[i].pid)
            descendant_drop(&b->descendants[i]);
    }
    net_timer_destroy(b->timer);
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    (void)rank;
    (void)change;
    exit_barrier_look_soon(member);
}

const struct member_module exit_barrier_module = {
    .own = MODULE_OWN(exit_barrier),
    .start = exit_barrier_start,
    .exiting = exiting,
    .rank_changed = rank_changed,
    .destroy = exit_barrier_destroy,
};
