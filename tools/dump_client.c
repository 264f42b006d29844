/*
 * dump_client.c - scan, connect, ask, put together
 *
 * The member is a process of the same user, but perhaps of another version, or one that
 * dies while it answers: every frame is checked, and what was answered until then is kept.
 * A rank that is broken may say anything of itself: who it is the member says that has asked
 * it, and how many there are, the others.
 */
#include "dump_client.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <uthash.h>

#include "net/msg.h"
#include "util/clock.h"

#define FRAME_MAX  (NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX)
#define NRANKS_MAX ((json_int_t)1 << 24)

/* --- who is there --- */

/* "@dyad/UID/HASH/RANK", where @ stands for the NUL of an abstract name; and what a fallback
 * name has behind that. */
static bool parse_name(const char *name, struct dump_member *member)
{
    unsigned long uid, rank;
    char *end;

    if (strncmp(name, "@dyad/", 6) != 0 || name[6] < '0' || name[6] > '9')
        return false;
    uid = strtoul(name + 6, &end, 10);
    if (*end != '/' || uid > UINT32_MAX)
        return false;
    const char *hash = end + 1;
    size_t len = strcspn(hash, "/");
    if (len == 0 || len >= sizeof(member->session) || hash[len] != '/')
        return false;
    const char *number = hash + len + 1;
    if (*number < '0' || *number > '9')
        return false;
    rank = strtoul(number, &end, 10);
    if (rank >= DYAD_RANK_NONE ||
        (*end && !(boot_claim_is_tail(end) && !end[BOOT_CLAIM_TAIL_LEN])))
        return false;
    snprintf(member->tail, sizeof(member->tail), "%s", end);
    member->uid = (uid_t)uid;
    member->rank = (uint32_t)rank;
    memcpy(member->session, hash, len);
    member->session[len] = '\0';
    return true;
}

static int compare_members(const void *left, const void *right)
{
    const struct dump_member *a = left, *b = right;
    int order;

    if (a->uid != b->uid)
        return a->uid < b->uid ? -1 : 1;
    if ((order = strcmp(a->session, b->session)))
        return order;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

int dump_client_scan(FILE *sockets, struct dump_member **members, size_t *n)
{
    struct dump_member *list = NULL, *grown, member;
    size_t used = 0, room = 0, line_size = 0;
    char *line = NULL;

    /* Num RefCount Protocol Flags Type St Inode Path; flag 0x10000 (__SO_ACCEPTCON): it
     * listens. Accepted connections show the same path. */
    while (getline(&line, &line_size, sockets) >= 0) {
        unsigned socket_flags;
        int path = 0;

        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %n", &socket_flags, &path) != 1 ||
            !path || !(socket_flags & 0x10000) || !parse_name(line + path, &member))
            continue;
        if (used == room) {
            room = room ? 2 * room : 16;
            if (!(grown = realloc(list, room * sizeof(*list)))) {
                free(line);
                free(list);
                errno = ENOMEM;
                return -1;
            }
            list = grown;
        }
        list[used++] = member;
    }
    free(line);
    if (ferror(sockets)) {
        free(list);
        errno = EIO;
        return -1;
    }
    if (used)
        qsort(list, used, sizeof(*list), compare_members);
    *members = list;
    *n = used;
    return 0;
}

/* The address of its socket; 0: the name is too long. */
static socklen_t name_of(const struct dump_member *member, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                     "dyad/%" PRIu32 "/%s/%" PRIu32 "%s", (uint32_t)member->uid,
                     member->session, member->rank, member->tail);

    if (n < 0 || (size_t)n >= sizeof(address->sun_path) - 1)
        return 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

void dump_client_drop_strangers(struct dump_member *members, size_t *n)
{
    struct sockaddr_un address;
    size_t kept = 0;

    for (size_t i = 0; i < *n; i++) {
        socklen_t len = name_of(&members[i], &address);
        if (len > 0 && boot_claim_holder(&address, len, members[i].uid) == BOOT_CLAIM_OURS)
            members[kept++] = members[i];
    }
    *n = kept;
}

int dump_client_connect(const struct dump_member *member, uint64_t timeout, pid_t *pid)
{
    struct sockaddr_un address;
    socklen_t name_len = name_of(member, &address);
    struct timeval limit = {(time_t)(timeout / UTIL_NSEC_PER_SEC),
                            (suseconds_t)(timeout % UTIL_NSEC_PER_SEC / 1000)};
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int error;

    if (name_len == 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (limit.tv_sec == 0 && limit.tv_usec == 0)
        limit.tv_usec = 1; /* zero would be for ever */
    /* A full backlog makes connect() wait, for no longer than a send. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
        connect(fd, (struct sockaddr *)&address, name_len) < 0) {
        error = errno == EAGAIN ? ETIMEDOUT : errno;
        goto close;
    }
    /* Anybody can bind the name; only this user's process is listened to. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        error = errno;
        goto close;
    }
    if (cred.uid != member->uid || (cred.uid != geteuid() && geteuid() != 0)) {
        error = EACCES;
        goto close;
    }
    if (pid)
        *pid = cred.pid;
    return fd;
close:
    close(fd);
    errno = error;
    return -1;
}

/* --- frames --- */

/* Read len bytes before `deadline`. 0, or -1: ETIMEDOUT, ECONNRESET (also at the end). */
static int receive_bytes(int fd, void *buf, size_t len, uint64_t deadline)
{
    char *p = buf;

    while (len > 0) {
        uint64_t now = util_clock_now();
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        uint64_t left = deadline > now ? (deadline - now) / UTIL_NSEC_PER_MSEC + 1 : 0;
        int ready = poll(&poll_fd, 1, left > INT32_MAX ? INT32_MAX : (int)left);

        if (ready == 0 && left == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready <= 0)
            continue;
        ssize_t n = recv(fd, p, len, MSG_DONTWAIT);
        if (n == 0) {
            errno = ECONNRESET;
            return -1;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* The next message, in buf[FRAME_MAX]. */
static int receive_message(int fd, struct net_msg *msg, void *buf, uint64_t deadline)
{
    uint32_t len;

    if (receive_bytes(fd, &len, sizeof(len), deadline) < 0)
        return -1;
    len = le32toh(len);
    if (len > FRAME_MAX) {
        errno = EPROTO;
        return -1;
    }
    if (receive_bytes(fd, buf, len, deadline) < 0)
        return -1;
    return net_msg_decode(msg, buf, len);
}

static int send_request(int fd, const struct dump_query *query)
{
    char frame[4 + NET_MSG_HEADER_MAX];
    struct net_msg msg = {
        .type = NET_MSG_GUEST_DUMP,
        .flags = query->flags,
        .id = 1,
        .entry.upath = query->upath,
        .rank = query->rank,
    };
    int n = net_msg_encode(&msg, frame + 4, sizeof(frame) - 4);

    if (n < 0)
        return -1;
    uint32_t len = htole32((uint32_t)n);
    memcpy(frame, &len, sizeof(len));
    const char *p = frame;
    for (size_t left = (size_t)n + 4; left > 0;) {
        ssize_t sent = send(fd, p, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            if (errno == EAGAIN)
                errno = ETIMEDOUT;
            return -1;
        }
        p += sent;
        left -= (size_t)sent;
    }
    return 0;
}

/* --- what was answered --- */

struct shard {
    uint32_t rank;
    json_t *json;      /* pages so far, or NULL */
    bool complete;     /* the last page is here, or an error */
    const char *error; /* static text, or NULL */
    const char *ended; /* its state: its process has ended, and nobody has followed it */
    UT_hash_handle hh;
};

static struct shard *shard_get(struct shard **shards, uint32_t rank)
{
    struct shard *shard;

    HASH_FIND(hh, *shards, &rank, sizeof(rank), shard);
    if (!shard && (shard = calloc(1, sizeof(*shard)))) {
        shard->rank = rank;
        HASH_ADD(hh, *shards, rank, sizeof(shard->rank), shard);
        if (!shard->hh.tbl) {
            free(shard);
            return NULL;
        }
    }
    return shard;
}

static int shard_compare(const struct shard *a, const struct shard *b)
{
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static const char *describe(int error)
{
    switch (error) {
    case NET_DUMP_LEFT:
        return "has left";
    case NET_DUMP_DIED:
        return "has died";
    case NET_DUMP_ENDED:
        return "has ended: it has left or died";
    case EHOSTUNREACH:
    case ECONNREFUSED:
    case ENOTCONN:
        return "cannot be reached: it has died, left or never joined";
    case ETIMEDOUT:
        return "did not answer in time";
    case EPROTO:
    case EPROTONOSUPPORT:
        return "gave an answer that cannot be read";
    default:
        return strerrordesc_np(error) ? strerrordesc_np(error) : "failed";
    }
}

/* How the process of a slot has ended: the state for the document; NULL: it has not. */
static const char *describe_end(int error)
{
    return error == NET_DUMP_LEFT    ? "left"
           : error == NET_DUMP_DIED  ? "dead"
           : error == NET_DUMP_ENDED ? "ended"
                                     : NULL;
}

/* Append the arrays of a further page. 0 or -1 ENOMEM. */
static int merge_page(json_t *first, json_t *page)
{
    static const char *const arrays[] = {"entries", "waiting", "own"};

    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        json_t *more = json_object_get(page, arrays[i]);
        json_t *have = json_object_get(first, arrays[i]);
        if (!json_is_array(more))
            continue;
        if (!json_is_array(have) ? json_object_set(first, arrays[i], more)
                                 : json_array_extend(have, more)) {
            errno = ENOMEM;
            return -1;
        }
    }
    return 0;
}

/* Take one DUMP_REPLY. 0 or -1 ENOMEM. */
static int take_reply(struct shard **shards, const struct net_msg *msg)
{
    json_t *page = NULL;
    struct shard *shard;

    if (msg->status == 0)
        page = json_loadb(msg->blob, msg->blob_len, 0, NULL);
    if (!(shard = shard_get(shards, msg->rank)) ||
        (json_is_object(page) &&
         json_object_set_new(page, "rank", json_integer(msg->rank)) < 0))
        goto no_memory;
    shard->complete = !(msg->flags & NET_DUMP_MORE);
    if (msg->status) {
        shard->error = describe(msg->status);
        shard->ended = describe_end(msg->status);
        shard->complete = true;
    } else if (!json_is_object(page)) {
        shard->error = describe(EPROTO);
    } else if (!shard->json) {
        shard->json = json_incref(page);
    } else if (merge_page(shard->json, page) < 0) {
        goto no_memory;
    }
    json_decref(page);
    return 0;
no_memory:
    json_decref(page);
    errno = ENOMEM;
    return -1;
}

/* The size of the job: what most say; the least, if as many say something else. */
static uint32_t job_size(const struct shard *shards)
{
    json_int_t most = 0, least = 0;
    size_t votes = 0; /* more for `most` than for all others that it has met */

    for (const struct shard *shard = shards; shard; shard = shard->hh.next) {
        json_int_t n = json_integer_value(json_object_get(shard->json, "nranks"));
        if (n <= 0 || n >= NRANKS_MAX)
            continue;
        if (!least || n < least)
            least = n;
        if (!votes)
            most = n;
        votes = n == most ? votes + 1 : votes - 1;
    }
    return (uint32_t)(votes ? most : least);
}

/* Every rank that ought to have answered has a shard or a reason. `why` for those that did
 * not. done: the member has reported all. */
static int fill_missing(struct shard **shards, const struct dump_query *query, bool done,
                        const char *why)
{
    struct shard *shard, *next;
    bool slots = false;
    bool places = false; /* of a session directory: most of them are nobody's */

    HASH_ITER(hh, *shards, shard, next)
    {
        /* In a ring of slots the member passes over those that nobody has had. */
        slots |= json_integer_value(json_object_get(shard->json, "absent_ranks")) > 0;
        places = places || json_object_get(shard->json, "launch");
        if (!shard->complete && !shard->error)
            shard->error = why;
    }
    bool all = query->rank == DYAD_RANK_NONE;
    uint32_t end = !all ? query->rank + 1 : places ? 0 : job_size(*shards);
    for (uint32_t rank = all ? 0 : query->rank; rank < end; rank++) {
        if (slots && all && done)
            break;
        if (!(shard = shard_get(shards, rank)))
            return -1;
        if (!shard->json && !shard->error)
            shard->error = why;
    }
    HASH_SORT(*shards, shard_compare);
    return 0;
}

/* Nobody need answer for a process that has ended, unless it was the one to be asked, or
 * had begun to answer. */
static json_t *make_document(struct shard *shards, const char *session, bool all)
{
    json_t *answered = json_array(), *unreachable = json_array(), *ended = json_array();
    struct shard *shard, *next;
    int failed = !answered || !unreachable || !ended;

    HASH_ITER(hh, shards, shard, next)
    {
        if (shard->json)
            failed |= json_array_append(answered, shard->json);
        if (shard->ended && !shard->json && all)
            failed |= json_array_append_new(
                ended, json_pack("{sIss}", "rank", (json_int_t)shard->rank, "state",
                                 shard->ended));
        else if (shard->error)
            failed |= json_array_append_new(
                unreachable, json_pack("{sIss}", "rank", (json_int_t)shard->rank, "error",
                                       shard->error));
    }
    json_t *document = failed
                           ? NULL
                           : json_pack("{sssOsOsO}", "session", session, "shards", answered,
                                       "unreachable", unreachable, "ended", ended);
    json_decref(answered);
    json_decref(unreachable);
    json_decref(ended);
    return document;
}

static void free_shards(struct shard **shards)
{
    struct shard *shard, *next;

    HASH_ITER(hh, *shards, shard, next)
    {
        HASH_DEL(*shards, shard);
        json_decref(shard->json);
        free(shard);
    }
}

json_t *dump_client_ask(int fd, const char *session, const struct dump_query *query,
                        char *err, size_t size)
{
    struct shard *shards = NULL;
    json_t *document = NULL;
    struct net_msg msg;
    void *buf = malloc(FRAME_MAX);
    bool heard = false, done = false;
    int error = 0;

    if (!buf || send_request(fd, query) < 0) {
        error = errno;
        goto failed;
    }
    while (!done) {
        uint64_t deadline = util_clock_now() + (heard ? query->timeout : query->first);
        if (receive_message(fd, &msg, buf, deadline) < 0) {
            error = errno;
            break;
        }
        heard = true;
        if (msg.type == NET_MSG_DONE) {
            error = msg.status;
            done = true;
        } else if (msg.type != NET_MSG_DUMP_REPLY) {
            error = EPROTO;
            break;
        } else if (take_reply(&shards, &msg) < 0) {
            error = ENOMEM;
            goto failed;
        }
    }
    if (!shards)
        goto failed;
    if (fill_missing(&shards, query, done && !error,
                     done && !error ? "did not answer" : describe(error)) < 0 ||
        !(document = make_document(shards, session, query->rank == DYAD_RANK_NONE))) {
        error = ENOMEM;
        goto failed;
    }
    free_shards(&shards);
    free(buf);
    return document;
failed:
    if (error == ETIMEDOUT)
        snprintf(err, size, "the member did not answer in time");
    else if (error == ECONNRESET || error == EPIPE)
        snprintf(err, size, "the member left without an answer");
    else if (error == EPROTO || error == EPROTONOSUPPORT)
        snprintf(err, size, "the member speaks another version of the protocol");
    else if (error == EINVAL && query->rank != DYAD_RANK_NONE)
        snprintf(err, size, "the job has no rank %" PRIu32, query->rank);
    else if (error == 0)
        snprintf(err, size, "the member has nothing to tell");
    else
        snprintf(err, size, "the member could not answer: %s", strerror(error));
    free_shards(&shards);
    free(buf);
    errno = error ? error : ENODATA;
    return NULL;
}
