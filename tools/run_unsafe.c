/*
 * run_unsafe.c - dyad-run --check
 *
 * What another user of this host may have made or can change: the directories and files that
 * are believed, and whatever is above them; what another host reaches; and what is left out by
 * a variable. A group counts as others, unless it is the user's own.
 */
#include "run_unsafe.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "boot/session_trust.h"
#include "net/devices.h"
#include "run_check.h"
#include "util/owner.h"

#define CONTROL_DIR ".dyad" /* store/control.h */
#define ADDRESSES   16

static struct {
    FILE *out;
    char host[256];
    unsigned found;
} check;

/* Names may be another user's: a line is one line, and a terminal is told nothing. */
static void print_line(const char *fmt, va_list ap)
{
    char text[3 * PATH_MAX];

    vsnprintf(text, sizeof(text), fmt, ap);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            fprintf(check.out, "\\x%02x", *p);
        else
            putc(*p, check.out);
    }
    putc('\n', check.out);
}

static void ok(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void ok(const char *fmt, ...)
{
    va_list ap;

    fputs("ok: ", check.out);
    va_start(ap, fmt);
    print_line(fmt, ap);
    va_end(ap);
}

static void unsafe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void unsafe(const char *fmt, ...)
{
    va_list ap;

    check.found++;
    fprintf(check.out, "unsafe on %s: ", check.host);
    va_start(ap, fmt);
    print_line(fmt, ap);
    va_end(ap);
}

/* A group of the user's name, with nobody else in it, as many systems give to each. */
static bool is_own_group(gid_t gid)
{
    struct passwd *user = getpwuid(geteuid());
    struct group *group;
    char name[256];

    if (gid == 0 && geteuid() == 0)
        return true;
    if (!user || user->pw_gid != gid)
        return false;
    snprintf(name, sizeof(name), "%s", user->pw_name);
    group = getgrgid(gid);
    if (!group || strcmp(group->gr_name, name) != 0)
        return false;
    for (char **member = group->gr_mem; *member; member++)
        if (strcmp(*member, name) != 0)
            return false;
    return true;
}

/* The bits of its mode by which others can do something; an access list shows as its group's. */
static mode_t open_to_others(const char *path, const struct stat *st, mode_t bits)
{
    mode_t mode = st->st_mode & bits;

    if ((mode & 070) && is_own_group(st->st_gid) &&
        getxattr(path, "system.posix_acl_access", NULL, 0) < 0)
        mode &= ~(mode_t)070;
    return mode;
}

/* True if others can have put it there, or can put another in its place. */
static bool is_movable(const char *name, const char *path)
{
    char from[PATH_MAX], where[PATH_MAX];
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && util_is_another(st.st_uid)) {
        unsafe("%s=%s: it is a symbolic link of user %u: name the directory or file itself",
               name, path, (unsigned)st.st_uid);
        return true;
    }
    snprintf(from, sizeof(from), "%s", path);
    while (session_trust_find_above(from, where, &st)) {
        if (util_is_another(st.st_uid) || open_to_others(where, &st, 022)) {
            unsafe(
                "%s=%s: other users can move it away and put another in its place, for %s "
                "is of user %u, mode %04o: take a path below directories in which only "
                "you or root can write",
                name, path, where, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
            return true;
        }
        if (strcmp(from, where) == 0) /* the top */
            break;
        strcpy(from, where);
    }
    return false;
}

static void look_at_control(const char *dmd)
{
    char path[PATH_MAX + sizeof(CONTROL_DIR) + 1];
    struct stat st;

    snprintf(path, sizeof(path), "%s/" CONTROL_DIR, dmd);
    if (lstat(path, &st) < 0) {
        if (errno != ENOENT)
            unsafe("%s: cannot be looked at: %s", path, strerror(errno));
        return;
    }
    if (st.st_uid != geteuid())
        unsafe("%s: it is of user %u, so it is not used, and nothing is shared: remove it",
               path, (unsigned)st.st_uid);
    else if (!S_ISDIR(st.st_mode))
        unsafe("%s: it is no directory, so nothing is shared: remove it", path);
    else if (open_to_others(path, &st, 077))
        unsafe("%s: it is open to others (mode %04o): chmod 700 %s", path,
               (unsigned)st.st_mode & 07777, path);
    else
        ok("%s", path);
}

static void look_at_managed(const struct run_place *place)
{
    const char *name = place->name, *path = place->path;
    char err[PATH_MAX + 512] = "the managed directory is gone";
    bool bad = is_movable(name, path);
    struct stat st;

    if (run_check_directory(name, path, false, err, sizeof(err)) != 0 ||
        stat(path, &st) < 0) {
        unsafe("%s", err);
        return;
    }
    if (util_is_another(st.st_uid)) {
        unsafe(
            "%s=%s: it is of user %u, who can read and change all that is in it: take a "
            "directory of your own",
            name, path, (unsigned)st.st_uid);
        bad = true;
    } else if (open_to_others(path, &st, 022)) {
        unsafe(
            "%s=%s: other users can write in it (mode %04o), and put files there that "
            "your programs read: chmod go-w it if it is yours alone, or take another",
            name, path, (unsigned)st.st_mode & 07777);
        bad = true;
    }
    if (!bad)
        ok("%s=%s%s", name, path,
           open_to_others(path, &st, 055)
               ? " (others may read in it what its mode lets them)"
               : "");
    look_at_control(path);
}

static void look_at_session_dir(const char *path)
{
    char err[2 * PATH_MAX + 512];
    bool bad = is_movable("DYAD_SESSION_DIR", path);

    if (run_check_session_dir("DYAD_SESSION_DIR", path, err, sizeof(err)) != 0)
        unsafe("%s", err);
    else if (!bad)
        ok("DYAD_SESSION_DIR=%s", path);
}

static void look_at_log(const char *path)
{
    char err[PATH_MAX + 512];
    struct stat st;

    if (run_check_file("DYAD_LOG_FILE", path, err, sizeof(err)) != 0) {
        unsafe("%s: take a file of your own", err);
        return;
    }
    if (is_movable("DYAD_LOG_FILE", path))
        return;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        if (st.st_uid != geteuid()) {
            unsafe("DYAD_LOG_FILE=%s: it is of user %u: take a file of your own", path,
                   (unsigned)st.st_uid);
            return;
        }
        if (open_to_others(path, &st, 066)) {
            unsafe(
                "DYAD_LOG_FILE=%s: others can read or change it (mode %04o), and names of "
                "your files are in it: chmod 600 %s",
                path, (unsigned)st.st_mode & 07777, path);
            return;
        }
    }
    ok("DYAD_LOG_FILE=%s", path);
}

static void look_at_network(const struct engine_config *config)
{
    struct net_device_address found[ADDRESSES];
    const char *devices =
        config->net_devices ? config->net_devices : getenv("UCX_NET_DEVICES");
    int n = net_devices_public(devices, config->encrypt ? NULL : getenv("UCX_TLS"), found,
                               ADDRESSES);

    if (n < 0)
        unsafe("the network devices cannot be looked at: %s", strerror(errno));
    for (int i = 0; i < n && i < ADDRESSES; i++)
        unsafe(
            "%s has the public address %s, on which UCX listens: name private devices in "
            "DYAD_NET_DEVICES, as far as all nodes reach each other by them",
            found[i].device, found[i].address);
    if (n == 0)
        ok("UCX listens on no public address");
}

unsigned run_unsafe(const struct engine_config *config, FILE *out)
{
    struct run_place places[2];
    unsigned n = run_check_managed(config, places);

    memset(&check, 0, sizeof(check));
    check.out = out;
    if (gethostname(check.host, sizeof(check.host) - 1) < 0)
        strcpy(check.host, "this host");
    if (!n)
        fputs("not looked at: a managed directory, for none is given (--dmd DIR)\n", out);
    for (unsigned i = 0; i < n; i++)
        look_at_managed(&places[i]);
    if (config->session_dir)
        look_at_session_dir(config->session_dir);
    if (config->log_file)
        look_at_log(config->log_file);
    look_at_network(config);
    if (!config->port_guard)
        unsafe(
            "DYAD_PORT_GUARD=0: whoever reaches a port of UCX can write to the memory of "
            "your processes: unset it, unless nobody else reaches these hosts");
    if (!config->integrity && !config->encrypt)
        unsafe(
            "DYAD_INTEGRITY=0: who can change what is on its way between the nodes changes "
            "your files unseen: unset it, unless all of the network's users are trusted");
    return check.found;
}
