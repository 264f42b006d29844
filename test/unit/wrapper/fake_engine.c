/*
 * fake_engine.c - a libdyad.so.1 that writes down what the wrapper asks of it
 *
 * One line per call in $FAKE_LOG: pid-independent, "what side upath result". Files below
 * $FAKE_REMOTE are "published elsewhere": consume copies one to the managed directory,
 * lookup shows it. Of directories "unknown..." the homes cannot be asked. A link "made..."
 * lookup makes itself, as the real one does all. Tokens are counted per process;
 * write_closed publishes if no other process holds the file's mark, which is, as in the
 * real engine, an OFD lock at 2^62. `remote`/.made-NAME: write_opened finds that another
 * process has made the file NAME since, once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/client_ops.h"
#include "engine/publish/fd_holders.h"

#define NTOKENS   4096
#define LOOKS     20
#define LOCK_BYTE ((off_t)1 << 62)

static char log_path[PATH_MAX], remote[PATH_MAX], root[PATH_MAX];
static bool no_setup, listing_off;
static bool storage_shared;
static int publish_error, member_error;
static void (*thread_enter)(void);
static _Atomic uint32_t ntokens, leaving, sharing;
static _Atomic bool
    asked; /* by the program, or whom it was forked from, not by the member */
static _Atomic int told_to_leave = -1;

static struct {
    ino_t ino;
    bool waits;
    char name[PATH_MAX + 8];
} tokens[NTOKENS];

static void say(const char *fmt, ...)
{
    char line[4096 + 512];
    va_list ap;
    int n, fd, saved = errno;

    if (strncmp(fmt, "member_", 7) != 0 && strncmp(fmt, "leave", 5) != 0 &&
        strncmp(fmt, "setup", 5) != 0)
        atomic_store(&asked, true);
    if (!log_path[0])
        return;
    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
    va_end(ap);
    line[n++] = '\n';
    fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, line, (size_t)n) != n)
            abort();
        close(fd);
    }
    errno = saved;
}

static const char *value(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++)
        if (!strncmp(*env, name, len) && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static void copy_value(char *to, char *const *env, const char *name)
{
    const char *v = value(env, name);
    snprintf(to, PATH_MAX, "%s", v ? v : "");
}

static int setup(const struct engine_host *host)
{
    copy_value(log_path, host->env, "FAKE_LOG");
    copy_value(remote, host->env, "FAKE_REMOTE");
    copy_value(root, host->env, "FAKE_ROOT");
    no_setup = value(host->env, "FAKE_NO_SETUP") != NULL;
    listing_off = value(host->env, "DYAD_LISTING") != NULL;
    storage_shared = value(host->env, "FAKE_SHARES") != NULL;
    publish_error = value(host->env, "FAKE_PUBLISH_ERROR") ? EHOSTUNREACH : 0;
    member_error = value(host->env, "FAKE_MEMBER_ERROR") != NULL;
    thread_enter = host->thread_enter;
    if (value(host->env, "FAKE_SAY_SETUP"))
        say("setup");
    return no_setup ? -1 : 0;
}

static int member_run(int claim_fd)
{
    thread_enter();
    /* As the real one: a table of its own. The copy of the claim in it is not needed here.
     */
    atomic_store(&sharing, 1);
    close_range(0, ~0U, CLOSE_RANGE_UNSHARE);
    atomic_store(&sharing, 0);
    syscall(SYS_futex, &sharing, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    say("member_run %s", claim_fd >= 0 ? "claim" : "none");
    if (member_error)
        return -1;
    while (!atomic_load(&leaving))
        syscall(SYS_futex, &leaving, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    say("member_left");
    atomic_store(&leaving, 2);
    syscall(SYS_futex, &leaving, FUTEX_WAKE_PRIVATE, 99, NULL, NULL, 0);
    return 0;
}

static void leave(enum engine_leave how)
{
    uint32_t none = 0;

    if (how == ENGINE_LEAVE_GUEST)
        return; /* the fake one promotes nobody */
    /* The wrapper repeats it until member_run() has returned. */
    if (atomic_exchange(&told_to_leave, (int)how) != (int)how)
        say("leave %s", how == ENGINE_LEAVE_EXIT     ? "exit"
                        : how == ENGINE_LEAVE_FAILED ? "failed"
                                                     : "exec");
    if (atomic_compare_exchange_strong(&leaving, &none, 1))
        syscall(SYS_futex, &leaving, FUTEX_WAKE_PRIVATE, 99, NULL, NULL, 0);
}

static void fork_child(void)
{
    atomic_store(&sharing, 0);
    atomic_store(&told_to_leave, -1);
    /* When the member's thread has loaded the engine is not the program's to know. */
    if (atomic_load(&asked))
        say("fork_child");
}

static const char *const side_name[] = {"c", "p"};

/* So that each test sees the call below. */
static uint32_t writes_ended(enum engine_role role)
{
    (void)role;
    return 0;
}

static bool read_is_plain(enum engine_role role, const char *upath, const struct stat *st)
{
    (void)role;
    (void)upath;
    (void)st;
    return false;
}

static int read_check(enum engine_role role, const char *upath, int fd)
{
    char dirty[2 * PATH_MAX];
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    snprintf(dirty, sizeof(dirty), "%s/.dirty-%s", remote, upath);
    rc = remote[0] && stat(dirty, &st) == 0;
    snprintf(dirty, sizeof(dirty), "%s/.pending-%s", remote, upath);
    if (!rc && remote[0] && stat(dirty, &st) == 0)
        rc = 2;
    say("read_check %s %s %d", side_name[role], upath, rc);
    return rc;
}

/* The temporary file that the file at `from` is, or will be, fetched into. lookup shows its
 * inode: cp compares what it saw before its open with what it opened. */
static int open_temporary(const char *from, char *temporary)
{
    snprintf(temporary, 2 * PATH_MAX, "%s/.dyad", root);
    mkdir(temporary, 0700);
    snprintf(temporary, 2 * PATH_MAX, "%s/.dyad/%s", root, strrchr(from, '/') + 1);
    return open(temporary, O_WRONLY | O_CREAT, 0644);
}

static int copy(const char *from, const char *to)
{
    char buf[65536], temporary[2 * PATH_MAX];
    int in = open(from, O_RDONLY), out;
    ssize_t n;

    if (in < 0)
        return -1;
    out = open_temporary(from, temporary);
    if (out < 0)
        abort();
    while ((n = read(in, buf, sizeof(buf))) > 0)
        if (write(out, buf, (size_t)n) != n)
            abort();
    close(in);
    close(out);
    return rename(temporary, to);
}

/* Make the directories above upath here. As the real one: a published link among them is
 * made, and then the path has to be resolved again. */
static int make_parents(const char *upath)
{
    char from[2 * PATH_MAX], to[2 * PATH_MAX], target[PATH_MAX];
    struct stat st;
    ssize_t n;

    for (const char *p = strchr(upath, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(from, sizeof(from), "%s/%.*s", remote, (int)(p - upath), upath);
        snprintf(to, sizeof(to), "%s/%.*s", root, (int)(p - upath), upath);
        if (lstat(to, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                continue;
            errno = S_ISLNK(st.st_mode) ? ESTALE : ENOTDIR;
            return -1;
        }
        if (lstat(from, &st) < 0)
            return -1;
        if (S_ISLNK(st.st_mode)) {
            n = readlink(from, target, sizeof(target) - 1);
            target[n > 0 ? n : 0] = '\0';
            if (symlink(target, to) == 0)
                errno = ESTALE;
            return -1;
        }
        if (mkdir(to, st.st_mode & 07777) < 0)
            return -1;
    }
    return 0;
}

static int bring(const char *upath)
{
    char from[2 * PATH_MAX], to[2 * PATH_MAX], target[PATH_MAX];
    struct stat st;
    ssize_t n;

    snprintf(from, sizeof(from), "%s/%s", remote, upath);
    snprintf(to, sizeof(to), "%s/%s", root, upath);
    if (!remote[0] || lstat(from, &st) < 0 || make_parents(upath) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return mkdir(to, st.st_mode & 07777) < 0 && errno != EEXIST ? -1 : 0;
    if (!S_ISLNK(st.st_mode))
        return copy(from, to);
    n = readlink(from, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return symlink(target, to) < 0 && errno != EEXIST ? -1 : 0;
}

static int consume(enum engine_role role, const char *upath, enum engine_consume how)
{
    static const char *const how_name[] = {"now", "wait", "update"};
    char dirty[2 * PATH_MAX], stale[2 * PATH_MAX], pending[2 * PATH_MAX],
        here[2 * PATH_MAX];
    struct stat st;
    int rc;

    snprintf(dirty, sizeof(dirty), "%s/.dirty-%s", remote, upath);
    snprintf(stale, sizeof(stale), "%s/.stale-%s", remote, upath);
    if (unlink(stale) == 0) {
        say("consume %s %s stale", side_name[role], upath);
        errno = ESTALE;
        return -1;
    }
    snprintf(pending, sizeof(pending), "%s/.pending-%s", remote, upath);
    snprintf(here, sizeof(here), "%s/%s", root, upath);
    rc = stat(pending, &st) == 0 && stat(here, &st) == 0 ? 0 : bring(upath);
    if (rc < 0 && errno == ESTALE) {
        say("consume %s %s %s stale", side_name[role], upath, how_name[how]);
        return -1;
    }
    if (how == ENGINE_CONSUME_UPDATE) {
        snprintf(stale, sizeof(stale), "%s/.making-%s", remote, upath);
        unlink(stale);
    } else if (unlink(dirty) == 0) {
        rc = 0;
    }
    say("consume %s %s %s %d", side_name[role], upath, how_name[how], rc);
    if (rc < 0)
        errno = strncmp(upath, "late", 4) == 0 ? ETIMEDOUT : ENOENT;
    return rc;
}

static int lookup(enum engine_role role, const char *upath, struct stat *st)
{
    char from[2 * PATH_MAX], temporary[2 * PATH_MAX];
    bool made = strncmp(upath, "made/", 5) == 0;
    struct stat local;
    int rc, fd;

    snprintf(from, sizeof(from), "%s/%s", remote, upath);
    rc = remote[0] && !made ? lstat(from, st) : -1;
    if (rc == 0 && S_ISREG(st->st_mode) && (fd = open_temporary(from, temporary)) >= 0) {
        if (fstat(fd, &local) == 0) {
            st->st_dev = local.st_dev;
            st->st_ino = local.st_ino;
        }
        close(fd);
    }
    say("lookup %s %s %d", side_name[role], upath, rc);
    if (rc < 0 && (!made || make_parents(upath) == 0 || errno != ESTALE))
        errno = ENOENT;
    return rc;
}

static int list(enum engine_role role, const char *upath,
                int (*fn)(void *arg, const char *name, unsigned char type), void *arg)
{
    char path[2 * PATH_MAX];
    struct dirent *entry;
    int rc = 0, n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s", remote, upath);
    dir = remote[0] && !listing_off ? opendir(path) : NULL;
    while (dir && rc == 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strncmp(entry->d_name, ".dirty-", 7) == 0 ||
            strncmp(entry->d_name, ".making-", 8) == 0 ||
            strncmp(entry->d_name, ".stale-", 7) == 0)
            continue;
        rc = fn(arg, entry->d_name, entry->d_type);
        n++;
    }
    if (dir)
        closedir(dir);
    if (listing_off) {
        errno = ENOTSUP;
        rc = -1;
    }
    say("list %s %s %d", side_name[role], *upath ? upath : ".", rc < 0 ? rc : n);
    return rc;
}

static int bring_parents(enum engine_role role, const char *upath)
{
    int rc = remote[0] ? make_parents(upath) : -1;

    say("bring_parents %s %s %d", side_name[role], upath, rc);
    if (rc < 0 && errno != ESTALE)
        errno = strncmp(upath, "unknown", 7) == 0 ? EHOSTUNREACH : ENOENT;
    return rc;
}

static int bring_below(const char *upath)
{
    char path[2 * PATH_MAX], name[2 * PATH_MAX];
    struct dirent *entry;
    DIR *dir;

    if (*upath)
        bring(upath);
    snprintf(path, sizeof(path), "%s/%s", remote, upath);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strncmp(entry->d_name, ".dirty-", 7) == 0 ||
            strncmp(entry->d_name, ".making-", 8) == 0 ||
            strncmp(entry->d_name, ".stale-", 7) == 0)
            continue;
        snprintf(name, sizeof(name), "%s%s%s", upath, *upath ? "/" : "", entry->d_name);
        bring_below(name);
    }
    if (dir)
        closedir(dir);
    return 0;
}

static int bring_tree(enum engine_role role, const char *upath)
{
    say("bring_tree %s %s", side_name[role], *upath ? upath : ".");
    return remote[0] ? bring_below(upath) : 0;
}

static int changed(enum engine_role role, const char *upath)
{
    char path[2 * PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", root, upath);
    if (lstat(path, &st) < 0)
        st.st_mode = 0;
    say("changed %s %s %o", side_name[role], upath, st.st_mode & ~0022u);
    return 0;
}

static int write_begin(enum engine_role role, const char *upath, int flags,
                       enum engine_write how, engine_token *token)
{
    bool waits = how == ENGINE_WRITE_WAITS;
    uint32_t n = atomic_fetch_add(&ntokens, 1) + 1;
    char from[2 * PATH_MAX], to[2 * PATH_MAX];
    struct stat st;

    snprintf(from, sizeof(from), "%s/.making-%s", remote, upath);
    if (remote[0] && waits && access(from, F_OK) == 0) {
        say("write_begin %s %s making", side_name[role], upath);
        errno = EINPROGRESS;
        return -1;
    }
    /* What is published and not here is fetched first, without waiting. */
    snprintf(from, sizeof(from), "%s/%s", remote, upath);
    snprintf(to, sizeof(to), "%s/%s", root, upath);
    if (remote[0] && !(flags & (O_TRUNC | O_EXCL)) && stat(to, &st) < 0)
        copy(from, to);
    *token = n;
    tokens[n % NTOKENS].waits = waits;
    snprintf(tokens[n % NTOKENS].name, sizeof(tokens[0].name), "%s", upath);
    say("write_begin %s %s %s%s%s%s%s", side_name[role], upath,
        (flags & O_ACCMODE) == O_RDWR     ? "rw"
        : (flags & O_ACCMODE) == O_WRONLY ? "w"
                                          : "r",
        flags & O_CREAT ? ",creat" : "", flags & O_TRUNC ? ",trunc" : "",
        flags & O_EXCL ? ",excl" : "", flags & O_APPEND ? ",append" : "");
    return 0;
}

static void mark(engine_token token, int fd)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};
    struct stat st;

    if (fstat(fd, &st) == 0)
        tokens[token % NTOKENS].ino = st.st_ino;
    fcntl(fd, F_OFD_SETLK, &lock);
}

static bool made_since(engine_token token)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/.made-%s", remote, tokens[token % NTOKENS].name);
    return remote[0] && tokens[token % NTOKENS].waits && unlink(path) == 0;
}

static int write_opened(engine_token token, int fd, int flags)
{
    (void)flags;
    if (fd >= 0 && made_since(token)) {
        say("write_opened %s made", tokens[token % NTOKENS].name);
        errno = EINPROGRESS;
        return -1;
    }
    if (fd >= 0)
        mark(token, fd);
    else
        say("write_aborted %s", tokens[token % NTOKENS].name);
    return 0;
}

static void name_of(int fd, char *name, size_t size)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    if (strncmp(path, root, strlen(root)) == 0)
        snprintf(name, size, "%s", path + strlen(root) + 1);
    else
        snprintf(name, size, "?%s", path);
}

static engine_token write_inherited(enum engine_role role, int fd)
{
    struct stat st;
    uint32_t n;

    fstat(fd, &st);
    for (n = atomic_load(&ntokens); n > 0; n--)
        if (tokens[n % NTOKENS].ino == st.st_ino)
            return n;
    n = atomic_fetch_add(&ntokens, 1) + 1;
    name_of(fd, tokens[n % NTOKENS].name, sizeof(tokens[0].name));
    mark(n, fd);
    say("write_inherited %s %s", side_name[role], tokens[n % NTOKENS].name);
    return n;
}

static void write_closing(engine_token token, int fd, struct engine_closing *closing)
{
    char name[sizeof(tokens[0].name)];

    closing->token = token;
    if (fd < 0)
        return;
    name_of(fd, name, sizeof(name));
    if (name[0] != '#') /* it had no name when it was opened: the first one is known */
        snprintf(tokens[token % NTOKENS].name, sizeof(name), "%s", name);
}

static bool superseded(enum engine_role role, const char *upath, uint64_t ino)
{
    (void)role;
    (void)upath;
    (void)ino;
    return false;
}

static void write_stored(engine_token token)
{
    (void)token;
}

static bool write_recorded(engine_token token)
{
    (void)token;
    return false;
}

static uint64_t write_record(engine_token token, uint64_t last, uint64_t offset,
                             uint64_t length)
{
    (void)token;
    (void)last;
    (void)offset;
    (void)length;
    return 0;
}

static void write_record_end(engine_token token, uint64_t number, uint64_t planned_end,
                             uint64_t end)
{
    (void)token;
    (void)number;
    (void)planned_end;
    (void)end;
}

static void write_unrecord(engine_token token)
{
    (void)token;
}

static bool write_joint(engine_token token)
{
    (void)token;
    return false;
}

static bool is_held(const char *path)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool held = false;

    if (fd >= 0) {
        held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
        close(fd);
    }
    return held;
}

/* While the member's thread makes its table, it may have a copy of what was closed here. As
 * the real one: wait until it is made. */
static void table_wait(void)
{
    while (atomic_load(&sharing))
        syscall(SYS_futex, &sharing, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

/* Who looks at /proc/PID/fd has, for the time of that look, a copy of the description that
 * nobody has open. As the real one: see who holds it, and look again if that is nobody. A
 * process in its exec, and a mapping, cannot be seen. */
static bool somebody_holds(const char *path)
{
    struct holder holder;
    struct stat st;
    bool held, seen = false;

    if (is_held(path))
        table_wait();
    for (int i = 0; (held = is_held(path)) && !seen && i < LOOKS && stat(path, &st) == 0;
         i++) {
        seen = holders_find(&st, root, &holder, 1) == 1;
        if (seen)
            holders_close(&holder, 1);
        else
            poll(NULL, 0, 1);
    }
    return held;
}

static int write_closed(struct engine_closing *closing, int error, bool mapped)
{
    engine_token token = closing->token;
    const char *name = tokens[token % NTOKENS].name;
    char path[2 * PATH_MAX];
    struct stat st;
    bool held;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    held = !mapped && somebody_holds(path);
    tokens[token % NTOKENS].ino = 0;
    if (held) {
        say("held %s", name);
        return 0;
    }
    st.st_size = -1;
    stat(path, &st);
    say("published %s %ld error %d mapped %d", name, (long)st.st_size, error, mapped);
    if (publish_error) {
        errno = publish_error;
        return -1;
    }
    return 0;
}

static int unlinked(enum engine_role role, const char *upath, bool was_here,
                    struct engine_renaming *renaming)
{
    (void)renaming;
    char path[2 * PATH_MAX];
    int rc;

    snprintf(path, sizeof(path), "%s/%s", remote, upath);
    rc = remote[0] ? remove(path) : -1;
    say("unlinked %s %s %s %d", side_name[role], upath, was_here ? "here" : "elsewhere",
        rc);
    if (rc < 0)
        errno = ENOENT;
    return rc;
}

static void renaming(enum engine_role role, const char *from, const char *to, uint64_t ino,
                     struct engine_renaming *renaming)
{
    (void)from;
    (void)to;
    (void)ino;
    renaming->place[role] = 1;
}

static void renaming_over(struct engine_renaming *renaming)
{
    renaming->place[0] = renaming->place[1] = 0;
}

static int renamed(enum engine_role role, const char *from, const char *to,
                   struct engine_renaming *renaming)
{
    (void)renaming;
    say("renamed %s %s %s", side_name[role], from ? from : "-", to ? to : "-");
    return 0;
}

static bool shares(enum engine_role role)
{
    (void)role;
    return storage_shared;
}

static int read_begin(enum engine_role role, const char *upath)
{
    say("read_begin %s %s", side_name[role], upath);
    return 0;
}

const struct engine_ops *dyad_engine_ops(unsigned abi);

__attribute__((visibility("default"))) const struct engine_ops *dyad_engine_ops(
    unsigned abi)
{
    static const struct engine_ops ops = {
        .abi = ENGINE_ABI,
        .setup = setup,
        .member_run = member_run,
        .leave = leave,
        .fork_child = fork_child,
        .shares = shares,
        .read_begin = read_begin,
        .writes_ended = writes_ended,
        .read_is_plain = read_is_plain,
        .read_check = read_check,
        .consume = consume,
        .lookup = lookup,
        .list = list,
        .bring_parents = bring_parents,
        .bring_tree = bring_tree,
        .write_begin = write_begin,
        .write_opened = write_opened,
        .write_inherited = write_inherited,
        .write_closing = write_closing,
        .write_closed = write_closed,
        .unlinked = unlinked,
        .changed = changed,
        .renaming = renaming,
        .renamed = renamed,
        .renaming_over = renaming_over,
        .write_stored = write_stored,
        .write_recorded = write_recorded,
        .write_record = write_record,
        .write_record_end = write_record_end,
        .write_unrecord = write_unrecord,
        .write_joint = write_joint,
        .write_shared = write_joint,
        .superseded = superseded,
    };
    return abi == ENGINE_ABI ? &ops : NULL;
}
