/*
 * config.c - one table of the DYAD_* variables, and their reading
 *
 * VARIABLES below is the only place that knows a variable's name, type, default, range and
 * help: reading, error texts, the hints for mistyped names, `dyad-run --help-variables` and
 * the man page all come from it. What a value means is in config_value.c, what people are
 * told in config_text.c.
 */
#include "config/config.h"
#include "config/config_impl.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "boot/identity.h"
#include "util/log.h"

#define PREFIX     "DYAD_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

#define KIB      1024.0
#define MIB      (1024.0 * KIB)
#define FOREVER  1e9 /* seconds; as nanoseconds it fits 64 bits */
#define NAME_CAP 64

static const struct config_word shared_words[] = {{"auto", -1}, {NULL, 0}};
static const struct config_word linger_words[] = {{"job", -1}, {NULL, 0}};
static const struct config_word wait_words[] = {
    {"auto", 0}, {"all", 0}, {"none", 0}, {NULL, 0}};
static const struct config_word prefetch_words[] = {{"off", 0}, {"auto", 0}, {NULL, 0}};
static const struct config_word dtl_words[] = {{"UCX", 0}, {NULL, 0}};
static const struct config_word log_words[] = {
    {"error", UTIL_LOG_ERROR}, {"warn", UTIL_LOG_WARN},    {"info", UTIL_LOG_INFO},
    {"debug", UTIL_LOG_DEBUG}, {"warning", UTIL_LOG_WARN}, {NULL, 0},
};

/* clang-format off */
/* X(name, type, member, default or NULL, lowest, highest, words, help) */
#define VARIABLES(X)                                                                      \
    X("DYAD_PATH", PATH_BOTH, path_producer, NULL, 0, 0, NULL,                            \
      "The managed directory: what is written below it is published at the last "         \
      "close, and what is read below it and is not here is fetched. The same path "       \
      "on every node, usually node-local (NVMe, tmpfs). It must exist.")                  \
    X("DYAD_PATH_PRODUCER", PATH, path_producer, NULL, 0, 0, NULL,                        \
      "The managed directory for what is written, where it differs from DYAD_PATH.")      \
    X("DYAD_PATH_CONSUMER", PATH, path_consumer, NULL, 0, 0, NULL,                        \
      "The managed directory for what is read, where it differs from DYAD_PATH.")         \
    X("DYAD_PATH_RELATIVE", BOOL, path_relative, "0", 0, 0, NULL,                         \
      "Take a relative path that names nothing in the working directory as relative to "  \
      "the managed directory; the C API takes every relative path so.")                   \
    X("DYAD_TIMEOUT", SECONDS, timeout, "0", 0, FOREVER, NULL,                            \
      "How long an open that cannot make the file waits for one that is not published "   \
      "yet, before it fails with ETIMEDOUT. 0: no limit.")                                \
    X("DYAD_WAIT", GLOBS, wait, "auto", 0, 0, wait_words,                                 \
      "Which files an open waits for that cannot make them: for reading, or for writing " \
      "without O_CREAT. auto: every one but those that "                                  \
      "ordinary programs look for and can do without (.ncrc, *.pyc, the system's "        \
      "libraries on a linker's path, ...), unless a command line names them; see "        \
      "DYAD_PROBES. all: every one. none: a file that "                                   \
      "is not published fails with ENOENT at once. Or patterns of paths relative "        \
      "to the managed directory, separated by ':'; files that match none are not "        \
      "waited for: one that another process of this node is writing is opened as it is.") \
    X("DYAD_PROBES", GLOBS, probes, NULL, 0, 0, NULL,                                     \
      "With DYAD_WAIT=auto: further files that your programs open if they are there, "    \
      "or look for and then make (Python's zipfile and h5py with mode a), as "            \
      "patterns like those of DYAD_WAIT. One of them is waited for only "                 \
      "if a command line of its rank names it, if another rank has it open for writing, " \
      "or if another rank has published a file there whose name differs in its numbers "  \
      "only. To find that out asks every rank.")                                          \
    X("DYAD_COMPLETE_AT_EXIT", GLOBS, complete_at_exit, NULL, 0, 0, NULL,                 \
      "Files that a close does not complete, as patterns like those of DYAD_WAIT: a log " \
      "that a program opens and appends to again and again. Other ranks wait for them "   \
      "until every rank that has written one is at its exit. Must be the same in the "    \
      "whole session.")                                                                   \
    X("DYAD_COMPLETE_AT_CHMOD", GLOBS, complete_at_chmod, NULL, 0, 0, NULL,               \
      "The same, until somebody takes away all permissions to write the file (chmod "     \
      "a-w), or every rank that has written it is at its exit.")                          \
    X("DYAD_TURNS", GLOBS, turns, NULL, 0, 0, NULL,                                       \
      "Files that two coupled components change in turns, as patterns like those of "     \
      "DYAD_WAIT: an open for reading waits until another component has published the "   \
      "newest version. Must be the same in the whole session.")                           \
    X("DYAD_COMPONENT", STRING, component, NULL, 1, 128, NULL,                            \
      "Name of this component, for DYAD_TURNS. Default: each launch is one.")             \
    X("DYAD_LINGER", SECONDS, linger, "job", 0, FOREVER, linger_words,                    \
      "How long a process at its exit goes on to serve its files. job: until the "        \
      "other processes of the job are at their exit too; with DYAD_SESSION_DIR, until "   \
      "those of the session are, or wait for files themselves, but for 1 s only if it "   \
      "has published nothing, and at once where dyad-run --serve runs on its node. 0: "   \
      "leave at once; files that nobody fetched by then are lost to other nodes. A "      \
      "process whose program has failed leaves at once.")                                 \
    X("DYAD_ASYNC_PUBLISH", BOOL, async_publish, "0", 0, 0, NULL,                         \
      "Return from close as soon as the publish is sent, not when it is "                 \
      "acknowledged. A message that overtakes it may then name a file that a reader "     \
      "does not see yet.")                                                                \
    X("DYAD_FSYNC_WRITE", BOOL, fsync_write, "0", 0, 0, NULL,                             \
      "Flush a file to its storage (fsync) before it is published.")                      \
    X("DYAD_PORT_GUARD", BOOL, port_guard, "1", 0, 0, NULL,                               \
      "Let nobody connect to UCX's TCP port who does not prove to be of the session. "    \
      "0, in the whole session: where the guard cannot be had (glibc before 2.34, in "    \
      "programs with MPI), or addresses change on the way (NAT), and nobody else can "    \
      "reach the ports.")                                                                 \
    X("DYAD_INTEGRITY", BOOL, integrity, "1", 0, 0, NULL,                                 \
      "Let a MAC show whether the bytes of files were changed on their way. 0, in the "   \
      "whole session: on a network whose every user is trusted; large files then move "   \
      "faster.")                                                                          \
    X("DYAD_ENCRYPT", BOOL, encrypt, "0", 0, 0, NULL,                                     \
      "Encrypt all that goes from process to process, by TCP only (AES-256-GCM). The "    \
      "same in the whole session; needs DYAD_PORT_GUARD=1, and stands in for "            \
      "DYAD_INTEGRITY.")                                                                  \
    X("DYAD_SHARED_STORAGE", BOOL_WORD, shared_storage, "auto", 0, 0, shared_words,       \
      "Whether the managed directory is one and the same storage on all nodes. Then "     \
      "nothing is copied, a node that begins to write a file tells others, and an "       \
      "open for reading waits until none of them writes it: a message to other nodes "    \
      "for each. auto: so on every file system that is not one kernel's own (NFS, "       \
      "Lustre, FUSE, ...), and where a node shows the same random id in the "             \
      "directory. 1: always; that nodes do not see the same is an error. 0: never; what " \
      "is in the same storage is still not copied, but who opens a file that another "    \
      "node is just writing may read half of it.")                                        \
    X("DYAD_NODE", STRING, node, NULL, 1, 255, NULL,                                      \
      "Name of this node, where the host name will not do: two directories of one "       \
      "machine stand for two nodes if their processes have different values. "            \
      "Default: host name and boot id.")                                                  \
    X("DYAD_KVS_NAMESPACE", STRING, kvs_namespace, NULL, 1, 128, NULL,                    \
      "Name of the session. Processes of one job that have different names share "        \
      "nothing.")                                                                         \
    X("DYAD_SESSION_DIR", PATH, session_dir, NULL, 0, 0, NULL,                            \
      "A directory on a file system that all nodes share, through which several "         \
      "launches (two srun of one job), and processes that no launcher started, meet. "    \
      "It must belong to the user and be closed to all others (chmod 700); it is made "   \
      "if it is missing.")                                                                \
    X("DYAD_SESSION_RANKS", INT, session_ranks, "4096", 2, 65536, NULL,                   \
      "How many processes (each with its children) may be in a session with "             \
      "DYAD_SESSION_DIR at a time. The value of the first one counts for all.")           \
    X("DYAD_LISTING", BOOL, listing, "1", 0, 0, NULL,                                     \
      "Whether a directory below the managed directory shows what is published in "       \
      "it on other nodes as well. Reading such a directory asks every rank; writing "     \
      "files costs no message more. Must be the same in the whole session.")              \
    X("DYAD_REPLICAS", INT, replicas, "2", 1, 8, NULL,                                    \
      "How many ranks keep the entry of a file (never more than there are ranks). "       \
      "Must be the same in the whole session.")                                           \
    X("DYAD_KEY_DEPTH", INT, key_depth, "2", 1, 16, NULL,                                 \
      "Levels of the tree in which a rank keeps its entries. Must be the same in "        \
      "the whole session.")                                                               \
    X("DYAD_KEY_BINS", INT, key_bins, "256", 2, 65536, NULL,                              \
      "Bins at each level of that tree. Must be the same in the whole session.")          \
    X("DYAD_CHUNK_SIZE", BYTES, chunk_size, "1M", 64 * KIB, 64 * MIB, NULL,               \
      "Bytes that a fetch asks for at once.")                                             \
    X("DYAD_CHUNKS", INT, chunks, "4", 1, 64, NULL,                                       \
      "Requests that a fetch keeps in flight. Together with DYAD_CHUNK_SIZE this "        \
      "bounds the memory of a fetch.")                                                    \
    X("DYAD_POLL_US", INT, poll_us, "0", 0, 1000, NULL,                                   \
      "Microseconds that a process that waits for its rank's member, and a member after " \
      "each message, look for what comes next before they sleep. It saves the time of "   \
      "being woken, and takes a core meanwhile: for nodes with cores to spare.")          \
    X("DYAD_PROMOTE", INT, promote, "100", 0, 1000000000, NULL,                           \
      "After so many files that it had to ask for, a process that is not the first of "   \
      "its rank, and has done so for a second, fetches and serves by itself instead of "  \
      "having its rank's first process do it. 0: never.")                                 \
    X("DYAD_INLINE_MAX", BYTES, inline_max, "4K", 0, 64 * KIB, NULL,                      \
      "Files up to this size go to the table with their publish, and to who opens them "  \
      "with the answer that says where they are; so they outlive their node as long as "  \
      "a rank that keeps their entry lives. Each rank keeps 16 MiB of them, the last "    \
      "that came. 0: every file is fetched from its node. At most 64K.")                  \
    X("DYAD_PREFETCH", GLOBS, prefetch, "auto", 0, 0, prefetch_words,                     \
      "auto: when a rank has opened three files of a series (one directory, one number "  \
      "in the name, constant stride), the next ones, 1 to 8, are brought here as soon "   \
      "as they are published, before they are opened. off: files are brought when they "  \
      "are opened. Or patterns of paths relative to the managed directory, separated by " \
      "':' (frames/*.h5): what matches is brought whenever it is published.")             \
    X("DYAD_PREFETCH_BYTES", BYTES, prefetch_bytes, "1G", 0, 1024.0 * 1024 * MIB, NULL,   \
      "How many bytes a rank may have brought ahead that are not opened yet; never more " \
      "than a tenth of the space that is free there.")                                    \
    X("DYAD_JOIN_TIMEOUT", SECONDS, join_timeout, "10", 0.1, 86400, NULL,                 \
      "How long a rank may take to join, or to come back after it was lost, before the "  \
      "others go on without it. It may still come later. An open of a file whose owner "  \
      "is lost fails after this time.")                                                   \
    X("DYAD_PEER_TIMEOUT", SECONDS, peer_timeout, "5", 0.1, 86400, NULL,                  \
      "How long a rank may leave a request unanswered before another is asked. If "       \
      "nothing at all is heard of it for as long again it counts as unreachable.")        \
    X("DYAD_DTL_MODE", DTL, dtl_mode, "UCX", 0, 0, dtl_words,                             \
      "How data move. There is one way.")                                                 \
    X("DYAD_NET_DEVICES", STRING, net_devices, NULL, 1, 1000, NULL,                       \
      "The network devices that the library's UCX uses, and on whose addresses it "       \
      "listens: names, separated by commas (ib0,mlx5_0:1). All nodes must reach each "    \
      "other by them. Default: those of UCX_NET_DEVICES, which this goes before; without " \
      "it the loopback device and RDMA if all ranks of the job are on one node and there " \
      "is no DYAD_SESSION_DIR, and else all.")                                            \
    X("DYAD_LOG", ENUM, log_level, "warn", 0, 0, log_words,                               \
      "What is reported.")                                                                \
    X("DYAD_LOG_FILE", PATH, log_file, NULL, 0, 0, NULL,                                  \
      "The file that log lines are appended to. Default: standard error.")                \
    X("DYAD_SYNC_DEBUG", BOOL, sync_debug, "0", 0, 0, NULL,                               \
      "The same as DYAD_LOG=debug.")                                                      \
    X("DYAD_STATS", BOOL, stats, "0", 0, 0, NULL,                                         \
      "Report at exit how many files and bytes this process published, fetched and "      \
      "served.")
/* clang-format on */

const struct config_variable config_variables[] = {
#define X(name, type, member, value, lo, hi, words, help)                         \
    {name,  CONFIG_##type, offsetof(struct engine_config, member), value, lo, hi, \
     words, help},
    VARIABLES(X)
#undef X
};

#define NVARIABLES (sizeof(config_variables) / sizeof(config_variables[0]))
const size_t config_nvariables = NVARIABLES;

static int apply(struct engine_config *config, const struct config_variable *var,
                 const char *value, char *err, size_t size)
{
    const char *why = config_assign(config, var, value && *value ? value : var->value);
    if (!why)
        return 0;

    struct config_text text = {err, size, 0};
    config_text_add(&text, "%s=", var->name);
    config_text_add_value(&text, value ? value : "");
    config_text_add(&text, ": %s; allowed: ", why);
    config_text_add_allowed(&text, var);
    errno = EINVAL;
    return -1;
}

/* Values that follow from other variables. */
static void derive(struct engine_config *config)
{
    if (config->sync_debug)
        config->log_level = UTIL_LOG_DEBUG;
}

/* --- names --- */

static const struct config_variable *find_variable(const char *name, size_t len)
{
    for (size_t i = 0; i < NVARIABLES; i++)
        if (strlen(config_variables[i].name) == len &&
            memcmp(config_variables[i].name, name, len) == 0)
            return &config_variables[i];
    return NULL;
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Letters to add, drop or change between two names (Levenshtein); case does not count. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[NAME_CAP + 1];
    size_t nb = strnlen(b, NAME_CAP);

    for (unsigned j = 0; j <= nb; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= nb; j++) {
            unsigned above = row[j];
            row[j] =
                smallest(above + 1, row[j - 1] + 1,
                         diagonal + (config_upper(a[i - 1]) != config_upper(b[j - 1])));
            diagonal = above;
        }
    }
    return row[nb];
}

/* The known name that is most like `name`, or NULL. A third of its letters may be wrong; a
 * name that is only the beginning of a known one (DYAD_SESSION) counts as one letter wrong.
 */
static const char *nearest_name(const char *name)
{
    const char *best = NULL;
    unsigned least = UINT_MAX;
    size_t len = strlen(name + PREFIX_LEN);

    for (size_t i = 0; i < NVARIABLES; i++) {
        const char *known = config_variables[i].name + PREFIX_LEN;
        unsigned d = distance(name + PREFIX_LEN, known);
        if (len >= 3 && strncmp(known, name + PREFIX_LEN, len) == 0 && d > 1)
            d = 1;
        if (d < least && d <= (strlen(known) + 2) / 3) {
            least = d;
            best = config_variables[i].name;
        }
    }
    return best;
}

bool engine_config_unknown(char *const env[], size_t *pos, char *name, size_t size,
                           const char **nearest)
{
    for (; env && env[*pos]; ++*pos) {
        const char *entry = env[*pos];
        size_t len = strcspn(entry, "=");
        if (len <= PREFIX_LEN || strncmp(entry, PREFIX, PREFIX_LEN) != 0 ||
            find_variable(entry, len) ||
            (len == sizeof(BOOT_GUEST_OF) - 1 && strncmp(entry, BOOT_GUEST_OF, len) == 0) ||
            (len == sizeof(BOOT_SAID_ALONE) - 1 &&
             strncmp(entry, BOOT_SAID_ALONE, len) == 0))
            continue; /* the last are from one of our processes to another */

        char full[NAME_CAP];
        snprintf(full, sizeof(full), "%.*s", (int)(len < sizeof(full) ? len : sizeof(full)),
                 entry);
        snprintf(name, size, "%s", full);
        *nearest = nearest_name(full);
        ++*pos;
        return true;
    }
    return false;
}

/* --- reading --- */

int engine_config_read(struct engine_config *config, char *const env[], char *err,
                       size_t size)
{
    const char *values[NVARIABLES] = {NULL};

    memset(config, 0, sizeof(*config));
    for (; env && *env; env++) {
        if (strncmp(*env, PREFIX, PREFIX_LEN) != 0)
            continue;
        size_t len = strcspn(*env, "=");
        const struct config_variable *var = (*env)[len] ? find_variable(*env, len) : NULL;
        /* the first of several counts, as for getenv() */
        if (var && !values[var - config_variables])
            values[var - config_variables] = *env + len + 1;
    }
    /* In the table's order: DYAD_PATH before the two that go before it. */
    for (size_t i = 0; i < NVARIABLES; i++) {
        const char *value = values[i] && *values[i] ? values[i] : NULL;
        if (!value && !config_variables[i].value)
            continue; /* zeroed; or set by DYAD_PATH */
        if (apply(config, &config_variables[i], value, err, size) < 0)
            return -1;
    }
    derive(config);
    return 0;
}

int engine_config_set(struct engine_config *config, const char *name, const char *value,
                      char *err, size_t size)
{
    const struct config_variable *var = find_variable(name, strlen(name));

    if (!var) {
        struct config_text text = {err, size, 0};
        const char *nearest = NULL;
        if (strncmp(name, PREFIX, PREFIX_LEN) == 0)
            nearest = nearest_name(name);
        config_text_add_value(&text, name);
        config_text_add(&text, ": no variable of that name%s%s", nearest ? "; is it " : "",
                        nearest ? nearest : "");
        errno = EINVAL;
        return -1;
    }
    if (apply(config, var, value, err, size) < 0)
        return -1;
    derive(config);
    return 0;
}
