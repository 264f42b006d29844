/*
 * identity.c - the launcher's variables and the name of the node
 *
 * Reads the environment it is given and not getenv(): bash has one of its own, which knows
 * nothing before main. Runs in every process before main, so: no malloc, no stdio, few
 * system calls.
 *
 * A solo process reads its name from what it is, or, after exec or in its children, from
 * DYAD_GUEST_OF: a child that was forked before the name was put there would take itself
 * for the first of another launch, so the wrapper puts it there before main.
 */
#include "boot/identity.h"
#include "util/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static int parse_rank(const char *text, uint32_t *rank)
{
    uint64_t value = 0;

    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value >= UINT32_MAX - 16) /* PMIx keeps the highest for wildcards */
            return -1;
    }
    *rank = (uint32_t)value;
    return 0;
}

/* The boot id without its newline, or "" where /proc is not mounted: the host name alone
 * must do then. Raw system calls: in the shim, open and close are our own interposed
 * symbols. */
static void boot_id(char *buf, size_t size)
{
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/sys/kernel/random/boot_id",
                      O_RDONLY | O_CLOEXEC, 0);
    long n = 0;

    if (fd >= 0) {
        n = syscall(SYS_read, fd, buf, size - 1);
        syscall(SYS_close, fd);
    }
    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
}

static int read_node(struct boot_identity *identity, char *const env[])
{
    const char *node = util_env_get(env, "DYAD_NODE");
    struct utsname host;
    char id[64];

    if (node && *node) {
        if (strlen(node) >= sizeof(identity->node))
            return -1;
        strcpy(identity->node, node);
        return 0;
    }
    if (uname(&host) < 0)
        strcpy(host.nodename, "localhost");
    boot_id(id, sizeof(id));
    /* 64 + 1 + 63: always fits */
    strcpy(identity->node, host.nodename);
    strcat(identity->node, "/");
    strcat(identity->node, id);
    return 0;
}

static char *put(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len + 1);
    return at + len;
}

static char *put_number(char *at, uint64_t value)
{
    char text[24];
    char *p = text + sizeof(text) - 1;

    *p = '\0';
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    return put(at, p);
}

/* When this process began, in clock ticks after the boot; 0 where /proc does not say. The
 * 22nd field; the second is the program's name, which may contain anything. */
static uint64_t start_time(void)
{
    char buf[1024];
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
    long n = 0;
    uint64_t value = 0;
    const char *p;

    if (fd >= 0) {
        n = syscall(SYS_read, fd, buf, sizeof(buf) - 1);
        syscall(SYS_close, fd);
    }
    buf[n > 0 ? n : 0] = '\0';
    if (!(p = strrchr(buf, ')')))
        return 0;
    for (int field = 2; field < 22 && p; field++)
        if ((p = strchr(p, ' ')))
            p++;
    for (; p && *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

static void read_solo(struct boot_identity *identity)
{
    struct utsname host;
    char *at = put(identity->nspace, BOOT_SOLO);

    if (uname(&host) < 0)
        strcpy(host.nodename, "localhost");
    at = put(at, host.nodename);
    at = put(at, ".");
    at = put_number(at, (uint64_t)getpid());
    at = put(at, ".");
    put_number(at, start_time()); /* 5 + 64 + 1 + 10 + 1 + 20: always fits */
    identity->launched = identity->solo = true;
}

void boot_identity_put_guest_of(const struct boot_identity *identity,
                                char text[BOOT_GUEST_OF_MAX])
{
    char *at = put(text, BOOT_GUEST_OF "=");

    at = put_number(at, identity->rank);
    at = put(at, "@");
    put(at, identity->nspace);
}

bool boot_identity_same(const struct boot_identity *a, const struct boot_identity *b)
{
    return a->launched && b->launched && !a->guest_only && !b->guest_only &&
           a->rank == b->rank && strcmp(a->nspace, b->nspace) == 0 &&
           strcmp(a->node, b->node) == 0;
}

static int read_guest_of(struct boot_identity *identity, const char *text)
{
    const char *at = strchr(text, '@');
    char rank[12] = "";

    if (!at || at - text >= (ptrdiff_t)sizeof(rank) || !at[1] ||
        strlen(at + 1) > BOOT_NSPACE_MAX)
        return -1;
    memcpy(rank, text, (size_t)(at - text));
    strcpy(identity->nspace, at + 1);
    identity->launched = identity->guest_only = true;
    return parse_rank(rank, &identity->rank);
}

static bool is_nobodys(const char *guest_of)
{
    return strncmp(guest_of, BOOT_GUEST_OF_NOBODY, strlen(BOOT_GUEST_OF_NOBODY)) == 0;
}

/* A malformed text names nobody here. */
static void read_outer(struct boot_identity *identity, const char *text)
{
    const char *at;
    char rank[12] = "";

    if (is_nobodys(text))
        text += strlen(BOOT_GUEST_OF_NOBODY);
    at = strchr(text, '@');
    if (!at || at - text >= (ptrdiff_t)sizeof(rank) || strlen(at + 1) > BOOT_NSPACE_MAX ||
        strcmp(at + 1, identity->nspace) == 0)
        return;
    memcpy(rank, text, (size_t)(at - text));
    if (parse_rank(rank, &identity->outer_rank) == 0)
        strcpy(identity->outer, at + 1);
}

int boot_identity_read(struct boot_identity *identity, char *const env[], const char **bad)
{
    const char *nspace = util_env_get(env, "PMIX_NAMESPACE");
    const char *rank = util_env_get(env, "PMIX_RANK");
    const char *guest_of = util_env_get(env, BOOT_GUEST_OF);
    const char *session_dir = util_env_get(env, "DYAD_SESSION_DIR");
    bool session = session_dir && *session_dir;
    int saved = errno;

    memset(identity, 0, sizeof(*identity));
    if (nspace && *nspace) {
        *bad = "PMIX_NAMESPACE";
        if (strlen(nspace) > BOOT_NSPACE_MAX)
            goto malformed;
        strcpy(identity->nspace, nspace);
        *bad = "PMIX_RANK";
        if (!rank || parse_rank(rank, &identity->rank) < 0)
            goto malformed;
        identity->launched = true;
        if (guest_of)
            read_outer(identity, guest_of);
        if (!identity->outer[0] && (guest_of = util_env_get(env, BOOT_OUTER)))
            read_outer(identity, guest_of);
    } else if (guest_of && is_nobodys(guest_of)) {
        identity->launched = false;
    } else if (guest_of && *guest_of) {
        *bad = BOOT_GUEST_OF;
        if (read_guest_of(identity, guest_of) < 0)
            goto malformed;
        if (session && strncmp(identity->nspace, BOOT_SOLO, strlen(BOOT_SOLO)) == 0) {
            identity->solo = true;
            identity->guest_only = false;
        }
    } else if (session) {
        read_solo(identity);
    }
    identity->serves = util_env_get(env, BOOT_SERVES) != NULL;
    *bad = "DYAD_NODE";
    if (read_node(identity, env) < 0)
        goto malformed;
    *bad = NULL;
    errno = saved;
    return 0;

malformed:
    errno = EINVAL;
    return -1;
}
