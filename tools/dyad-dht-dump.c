/*
 * dyad-dht-dump - show the hash table of a job that runs
 *
 * Finds the members on this node by their sockets, connects to one of them as a guest does,
 * and has it ask all ranks. Changes nothing in the job.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dump_check.h"
#include "dump_client.h"
#include "dump_print.h"
#include "dump_session.h"
#include "dyad/dyad.h"
#include "config/config.h"
#include "net/msg.h"
#include "util/clock.h"

enum { EXIT_SHOWN = 0, EXIT_FAILED = DUMP_EXIT_FAILED, EXIT_PARTLY = 2, EXIT_WRONG = 3 };

#define TIMEOUT_MAX 86400.0

/* How long a member may be silent before the next one on this node is tried: longer than it
 * waits itself for a rank (DYAD_PEER_TIMEOUT, 5 s). */
#define NEXT_MEMBER_AFTER (6 * UTIL_NSEC_PER_SEC)

static struct {
    const char *session, *key;
    bool entries, waiting, check, json, list;
    uint32_t rank;
    double timeout;
} opt = {.rank = DYAD_RANK_NONE, .timeout = 10};

/* --- which file --- */

/* `path` without "." and empty components. Exits if it leads upwards or nowhere. */
static void normalise(const char *path, char *upath, size_t size)
{
    size_t used = 0;

    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 2 && path[0] == '.' && path[1] == '.')
            dump_die("--key %s: \"..\" is not followed; write the path without it",
                     opt.key);
        if (len && !(len == 1 && path[0] == '.')) {
            if (used + len + 2 > size)
                dump_die("--key: longer than a path can be");
            if (used)
                upath[used++] = '/';
            memcpy(upath + used, path, len);
            used += len;
        }
        path += len;
        path += *path == '/';
    }
    upath[used] = '\0';
    if (!used)
        dump_die("--key %s: that is the managed directory itself; name a file in it",
                 opt.key);
}

/* The name of a file in the table: an absolute path is taken as below the managed directory
 * that the environment names, ours or that of any process of the job here. */
static void find_upath(const struct dump_session *session, char *upath, size_t size)
{
    extern char **environ;
    struct engine_config config;
    const char *rest = opt.key;
    char err[256];

    if (opt.key[0] == '/') {
        rest = NULL;
        if (engine_config_read(&config, environ, err, sizeof(err)) == 0 &&
            !(rest = dump_session_below(opt.key, config.path_consumer)))
            rest = dump_session_below(opt.key, config.path_producer);
        for (size_t i = 0; !rest && i < session->nmanaged; i++)
            rest = dump_session_below(opt.key, session->managed[i]);
        if (!rest)
            dump_die(
                "--key %s: not below a managed directory that is known here; give the path "
                "relative to the managed directory, or set DYAD_PATH",
                opt.key);
    }
    normalise(rest, upath, size);
}

/* --- main --- */

static void print_help(void)
{
    printf(
        "Usage: dyad-dht-dump [OPTION]...\n"
        "Show the distributed hash table of a job of yours that runs on this node.\n\n"
        "  --entries       the entries that each rank keeps\n"
        "  --waiting       who waits for which file, and since when\n"
        "  --key PATH      explain one file: below the managed directory, or relative to "
        "it\n"
        "  --check         compare every entry with its homes and with its owner's disk\n"
        "  --rank N        ask only rank N\n"
        "  --json          print one JSON document\n"
        "  --session NAME  which session, if there are several: its hash, job or "
        "directory\n"
        "  --list          list the sessions on this node and exit\n"
        "  --timeout S     seconds to wait for each answer (10)\n"
        "  --version       print the version and exit\n"
        "  --help          print this and exit\n\n"
        "Exit status: 0; 1 if nothing could be shown; 2 if some rank did not answer;\n"
        "3 if --check found something wrong.\n");
}

static double parse_timeout(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value > 0) || value > TIMEOUT_MAX)
        dump_die("--timeout %s: seconds are needed, above 0 and at most %.0f", text,
                 TIMEOUT_MAX);
    return value;
}

static uint32_t parse_rank(const char *text)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value >= DYAD_RANK_NONE)
        dump_die("--rank %s: not the number of a rank", text);
    return (uint32_t)value;
}

enum {
    ENTRIES = 256,
    WAITING,
    KEY,
    CHECK,
    RANK,
    JSON,
    SESSION,
    LIST,
    TIMEOUT,
    VERSION,
    HELP
};
static const struct option options[] = {
    {"entries", no_argument, NULL, ENTRIES},
    {"waiting", no_argument, NULL, WAITING},
    {"key", required_argument, NULL, KEY},
    {"check", no_argument, NULL, CHECK},
    {"rank", required_argument, NULL, RANK},
    {"json", no_argument, NULL, JSON},
    {"session", required_argument, NULL, SESSION},
    {"list", no_argument, NULL, LIST},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"version", no_argument, NULL, VERSION},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void parse(int argc, char *argv[])
{
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case ENTRIES:
            opt.entries = true;
            break;
        case WAITING:
            opt.waiting = true;
            break;
        case KEY:
            opt.key = optarg;
            break;
        case CHECK:
            opt.check = true;
            break;
        case RANK:
            opt.rank = parse_rank(optarg);
            break;
        case JSON:
            opt.json = true;
            break;
        case SESSION:
            if (!*optarg)
                dump_die("--session: its value is empty: was a variable not set?");
            opt.session = optarg;
            break;
        case LIST:
            opt.list = true;
            break;
        case TIMEOUT:
            opt.timeout = parse_timeout(optarg);
            break;
        case VERSION:
            printf("dyad-dht-dump %d.%d.%d\n", DYAD_VERSION_MAJOR, DYAD_VERSION_MINOR,
                   DYAD_VERSION_PATCH);
            exit(EXIT_SHOWN);
        case 'h':
        case HELP:
            print_help();
            exit(EXIT_SHOWN);
        default:
            fprintf(stderr, "Try 'dyad-dht-dump --help'.\n");
            exit(EXIT_FAILED);
        }
    }
    if (optind < argc)
        dump_die("%s: no argument is expected. Try 'dyad-dht-dump --help'", argv[optind]);
    if (opt.check && (opt.entries || opt.waiting || opt.key || opt.rank != DYAD_RANK_NONE))
        dump_die(
            "--check asks all ranks for everything: it does not go with --entries, "
            "--waiting, --key or --rank");
}

/* Ask the members that were chosen, one after the other, until one answers. */
static json_t *ask(const struct dump_session *sessions, size_t n, uint8_t flags,
                   const char *name)
{
    uint64_t timeout = (uint64_t)(opt.timeout * (double)UTIL_NSEC_PER_SEC);
    char upath[PATH_MAX], err[256] = "";
    const char *asked = "";
    json_t *document = NULL;
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        left += sessions[i].chosen ? sessions[i].n : 0;
    for (size_t i = 0; i < n && !document; i++) {
        const struct dump_session *session = &sessions[i];
        if (!session->chosen)
            continue;
        asked = session->members->session;
        if (opt.key && !name) {
            find_upath(session, upath, sizeof(upath));
            name = upath;
        }
        for (size_t j = 0; j < session->n && !document; j++, left--) {
            bool others = left > 1 && opt.rank == DYAD_RANK_NONE;
            uint64_t first =
                others && timeout > NEXT_MEMBER_AFTER ? NEXT_MEMBER_AFTER : timeout;
            struct dump_query query = {
                .flags = flags,
                .upath = name,
                .rank = opt.rank,
                .first = first,
                .timeout = timeout,
            };
            int fd = dump_client_connect(&session->members[j], first, NULL);
            if (fd < 0) {
                snprintf(
                    err, sizeof(err), "rank %" PRIu32 ": cannot connect: %s",
                    session->members[j].rank,
                    errno == EACCES ? "it is not a process of that user" : strerror(errno));
                continue;
            }
            document =
                dump_client_ask(fd, session->members->session, &query, err, sizeof(err));
            close(fd);
        }
    }
    if (!document)
        dump_die("session %s: %s", asked, err);
    return document;
}

struct chosen {
    const struct dump_session *sessions;
    size_t n;
};

static json_t *check_ask(void *arg, uint8_t flags, const char *upath)
{
    const struct chosen *chosen = arg;
    return ask(chosen->sessions, chosen->n, flags, upath);
}

/* The document of a check, or of what else was asked for. */
static json_t *ask_all(const struct dump_session *sessions, size_t n)
{
    struct chosen chosen = {sessions, n};
    json_t *result;

    if (!opt.check)
        return ask(sessions, n,
                   (uint8_t)((opt.entries ? NET_DUMP_ENTRIES : 0) |
                             (opt.waiting || opt.key ? NET_DUMP_WAITING : 0) |
                             (opt.key ? NET_DUMP_KEY : 0)),
                   NULL);
    if (!(result = dump_check(check_ask, &chosen)))
        dump_die("the check was not finished: %s", strerror(errno));
    return result;
}

static int print(json_t *document)
{
    int rc = 0;

    if (opt.json) {
        rc = json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
        putchar('\n');
        return rc;
    }
    if (opt.check) {
        dump_print_ended(stderr, document, "dead");
        return dump_check_print(stdout, document);
    }
    printf("session %s\n", json_string_value(json_object_get(document, "session")));
    if (opt.key)
        return dump_print_key(stdout, document);
    if (!opt.entries && !opt.waiting) {
        rc = dump_print_shards(stdout, document);
        dump_print_ended(stdout, document, "left");
        dump_print_ended(stdout, document, "dead");
        dump_print_ended(stdout, document, "ended");
        return rc;
    }
    if (opt.entries)
        rc = dump_print_entries(stdout, document);
    if (rc == 0 && opt.entries && opt.waiting)
        putchar('\n');
    if (rc == 0 && opt.waiting)
        rc = dump_print_waiting(stdout, document);
    return rc;
}

int main(int argc, char *argv[])
{
    struct dump_member *members = NULL;
    struct dump_session *sessions = NULL;
    size_t nmembers = 0;

    parse(argc, argv);
    FILE *sockets = fopen("/proc/net/unix", "re");
    if (!sockets || dump_client_scan(sockets, &members, &nmembers) < 0)
        dump_die("cannot read /proc/net/unix: %s", strerror(errno));
    fclose(sockets);
    dump_client_drop_strangers(members, &nmembers);

    size_t nsessions = dump_session_group(members, nmembers, &sessions);
    if (!nsessions)
        dump_session_none(members, nmembers);
    if (opt.list) {
        for (size_t i = 0; i < nsessions; i++)
            dump_session_print(stdout, &sessions[i]);
        dump_session_free(sessions, nsessions);
        free(members);
        return EXIT_SHOWN;
    }
    dump_session_choose(sessions, nsessions, opt.session, opt.key);

    json_t *document = ask_all(sessions, nsessions);
    dump_session_free(sessions, nsessions);
    free(members);
    if (print(document) < 0 || fflush(stdout) != 0 || ferror(stdout))
        dump_die("cannot write: %s", strerror(errno));
    bool partly = json_array_size(json_object_get(document, "unreachable")) > 0;
    if (partly) {
        fprintf(stderr, "dyad-dht-dump: some ranks did not answer:\n");
        dump_print_unreachable(stderr, document);
    }
    bool wrong = json_array_size(json_object_get(document, "mismatches")) > 0;
    partly |= json_integer_value(json_object_get(document, "unconfirmed")) > 0;
    json_decref(document);
    return wrong ? EXIT_WRONG : partly ? EXIT_PARTLY : EXIT_SHOWN;
}
